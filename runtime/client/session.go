package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Timeouts for closing a session that does not respond.
const (
	closeGrace = 3 * time.Second
	closeLimit = 30 * time.Second
)

// A session is a connection to the server, from the handshake until it is lost or closed. A Client has at most one live
// session.
type session struct {
	cs          *mcp.ClientSession
	board       *tapState
	post        *poster           // nil on a shared carrier
	send        mcp.MethodHandler // below the SDK client's other middleware
	events      bool              // the server advertises events
	listChanged bool
	stateless   bool // revision 2026-07-28 or later

	// ctx ends when the session is lost or closed.
	ctx    context.Context
	cancel context.CancelCauseFunc

	suspected atomic.Bool // a fresh handshake must check that the server is still the same
}

func (s *session) lose() { s.cancel(s.board.lossError()) }

// requireHandshake makes the next call start with a new handshake. A session without state on the server is replaced
// only if the outcome of the handshake differs, so a single invalid call does not end other streams.
func (s *session) requireHandshake() {
	if s.isStateful() {
		s.lose()
		return
	}
	s.suspected.Store(true)
}

// isStateful reports whether the server keeps state for the session between requests.
func (s *session) isStateful() bool { return s.events && (!s.stateless || s.board.shared) }

// hasSameOutcome reports whether the handshakes of s and o had the same outcome.
func (s *session) hasSameOutcome(o *session) bool {
	return s.events == o.events && s.listChanged == o.listChanged && s.version() == o.version()
}

func (s *session) version() string { return s.cs.InitializeResult().ProtocolVersion }

// withSession returns a context derived from ctx that is also cancelled when the session ends.
func (s *session) withSession(ctx context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return joined, func() { stop(); cancel(nil) }
}

// connect opens a session over the client's transport. If strict is set, a missing response to server/discover is an
// error. Otherwise the SDK falls back to the handshake of older revisions.
func (c *Client) connect(ctx context.Context, strict bool) (*session, error) {
	t := c.transport
	if d, ok := t.(*dialed); ok {
		inner, err := d.open(ctx)
		if err != nil {
			return nil, fmt.Errorf("client: opening transport: %w", err)
		}
		t = inner
	}
	var b *tapState
	var post *poster
	switch own := t.(type) {
	case *mcp.StreamableClientTransport:
		b = newTapState(false, &c.observers)
		t, post = c.tapHTTP(own, b)
	default:
		if p, ok := t.(*Process); ok {
			t = p.withLimit(c.opts.MaxMessage)
		}
		b = newTapState(true, &c.observers)
		t = &connTransport{t, b}
	}
	b.strict = strict
	stop := context.AfterFunc(ctx, b.abort)
	cs, err := c.mcp.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: c.opts.ProtocolVersion})
	if err == nil && !stop() {
		go cs.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		b.abort()
		return nil, fmt.Errorf("client: connecting: %w", b.explain(err))
	}
	s := &session{cs: cs, board: b, post: post, send: c.send}
	s.events, s.listChanged = b.endHandshake()
	s.stateless = s.version() >= wire.RevisionStateless
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	gone := make(chan struct{})
	go func() {
		cs.Wait()
		close(gone)
		s.lose()
	}()
	c.runInBackground(func() {
		<-s.ctx.Done()
		s.close(gone, c.closeGrace)
		c.log.Debug("session closed", "cause", context.Cause(s.ctx))
	})
	return s, nil
}

// startWatch starts watching the catalog of the client's new session. The caller must hold mu.
func (c *Client) startWatch(s *session) {
	if s.events {
		c.events = true
		c.runInBackground(func() { c.watchCatalog(s) })
	}
}

// hadEvents reports whether any session of the client supported events.
func (c *Client) hadEvents() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events
}

// shared reports whether all requests use one connection.
func (c *Client) shared() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sess.board.shared
}

// close closes the SDK's session, and aborts its carrier if that takes too long. All calls must have ended with s.ctx.
func (s *session) close(gone <-chan struct{}, after time.Duration) {
	go s.cs.Close()
	grace := time.AfterFunc(after, s.board.abort)
	defer s.board.abort()
	defer grace.Stop()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-gone:
	case <-limit.C:
	}
}

// A reconnection is a series of attempts to reconnect.
type reconnection struct {
	first chan struct{} // closed after the first try; err then holds its error
	done  chan struct{} // closed when there is a session or the client is closed
	err   error
}

// liveSession returns the live session and reconnects if it was lost. It waits for one attempt to reconnect or, if
// patient is set, until ctx is done.
func (c *Client) liveSession(ctx context.Context, patient bool) (*session, error) {
	for {
		c.mu.Lock()
		if err := context.Cause(c.ctx); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		if s := c.sess; s != nil && s.ctx.Err() == nil && !s.suspected.Load() {
			c.mu.Unlock()
			return s, nil
		}
		if !isRedialable(c.transport) {
			c.mu.Unlock()
			return nil, ErrSessionLost
		}
		if c.again == nil {
			a := &reconnection{first: make(chan struct{}), done: make(chan struct{})}
			c.again = a
			c.runInBackground(func() { c.reconnect(a) })
		}
		again := c.again
		c.mu.Unlock()
		first := again.first
		if patient {
			first = nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.ctx.Done():
		case <-again.done:
		case <-first:
			c.mu.Lock()
			err := again.err
			c.mu.Unlock()
			if err != nil {
				return nil, err
			}
		}
	}
}

// reconnect tries to connect until it succeeds or the client is closed.
func (c *Client) reconnect(a *reconnection) {
	defer close(a.done)
	pauses := backoffState{Backoff: c.opts.Backoff}
	for n := 0; ; n++ {
		s, err := c.tryConnect()
		c.mu.Lock()
		a.err = err
		if err == nil {
			c.replaceSession(s)
			c.again = nil
		}
		c.mu.Unlock()
		if n == 0 {
			close(a.first)
		}
		if err == nil {
			c.log.Info("reconnected", "attempts", n+1)
			return
		}
		if c.ctx.Err() != nil {
			return
		}
		c.log.Warn("reconnecting failed", "err", err)
		if sleep(c.ctx, retryPause(err, &pauses)) != nil {
			return
		}
	}
}

// replaceSession makes s the client's session, unless the current session is still alive, stateless and equivalent. The
// caller must hold mu.
func (c *Client) replaceSession(s *session) {
	old := c.sess
	if old.ctx.Err() == nil && !old.isStateful() && old.hasSameOutcome(s) {
		old.suspected.Store(false)
		s.lose()
		return
	}
	old.lose()
	c.sess = s
	c.catalog.invalidate()
	c.startWatch(s)
}

// errConnectTimeout is the cause of the cancellation if connecting times out.
var errConnectTimeout = fmt.Errorf("client: connecting took too long: %w", context.DeadlineExceeded)

// connectContext returns a context with the timeout for one attempt to connect.
func (c *Client) connectContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.opts.CallTimeout, errConnectTimeout)
}

func (c *Client) tryConnect() (*session, error) {
	ctx, cancel := c.connectContext(c.ctx)
	defer cancel()
	c.mu.Lock()
	former := c.sess
	c.mu.Unlock()
	return c.connect(ctx, former.stateless)
}
