package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Bounds of ending a session that does not answer.
const (
	closeGrace = 3 * time.Second
	closeLimit = 30 * time.Second
)

// A session is one connection to the server, from handshake to loss. A Client has at most one live
// session at a time.
type session struct {
	cs          *mcp.ClientSession
	board       *board
	events      bool // the server advertises events in either form
	listChanged bool
	stateless   bool // revision 2026-07-28 or later

	// ctx ends when the session is lost or closed.
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (s *session) lose() { s.cancel(s.board.loss()) }

// join derives a context from ctx that also ends with the session.
func (s *session) join(ctx context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return joined, func() { stop(); cancel(nil) }
}

// connect makes one session over the client's transport.
func (c *Client) connect(ctx context.Context) (*session, error) {
	t := c.transport
	if d, ok := t.(*dialed); ok {
		inner, err := d.open(ctx)
		if err != nil {
			return nil, fmt.Errorf("client: opening transport: %w", err)
		}
		t = inner
	}
	var b *board
	switch own := t.(type) {
	case *mcp.StreamableClientTransport:
		b = newBoard(false)
		t = tapHTTP(own, b, c.opts.MaxMessage)
	default:
		if p, ok := t.(*Process); ok {
			t = p.bounded(c.opts.MaxMessage)
		}
		b = newBoard(true)
		t = &connTransport{t, b}
	}
	b.others = &c.observers
	stop := context.AfterFunc(ctx, b.abort)
	cs, err := c.mcp.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: c.opts.ProtocolVersion})
	if err == nil && !stop() {
		go cs.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		b.abort()
		return nil, fmt.Errorf("client: connecting: %w", b.refusalOf(err))
	}
	s := &session{cs: cs, board: b}
	s.events, s.listChanged = b.shaken()
	s.stateless = cs.InitializeResult().ProtocolVersion >= wire.RevisionStateless
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	gone := make(chan struct{})
	go func() {
		cs.Wait()
		close(gone)
		s.lose()
	}()
	c.background(func() {
		<-s.ctx.Done()
		s.close(gone, c.closeGrace)
		c.log.Debug("session closed", "cause", context.Cause(s.ctx))
	})
	if s.events {
		c.background(func() { c.watch(s) })
	}
	return s, nil
}

// close ends the SDK's session in order, or cuts its carrier when that takes too long. All calls
// have ended with s.ctx.
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

// An attempt is a running try to get a session again.
type attempt struct {
	first chan struct{} // closed after the first try; err is its error then
	done  chan struct{} // closed when there is a session or no hope
	err   error
}

// live returns the live session, connecting again when it was lost. It waits until ctx ends when
// patient, else only for one try.
func (c *Client) live(ctx context.Context, patient bool) (*session, error) {
	for {
		c.mu.Lock()
		if err := context.Cause(c.ctx); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		if s := c.sess; s != nil && s.ctx.Err() == nil {
			c.mu.Unlock()
			return s, nil
		}
		if !redialable(c.transport) {
			c.mu.Unlock()
			return nil, ErrSessionLost
		}
		if c.again == nil {
			a := &attempt{first: make(chan struct{}), done: make(chan struct{})}
			c.again = a
			c.background(func() { c.reconnect(a) })
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

// reconnect connects again until it succeeds or the client is closed.
func (c *Client) reconnect(a *attempt) {
	defer close(a.done)
	for n := 0; ; n++ {
		s, err := c.tryConnect()
		c.mu.Lock()
		a.err = err
		if err == nil {
			c.sess = s
			c.catalog.forget()
		}
		if err == nil || c.ctx.Err() != nil {
			c.again = nil
		}
		c.mu.Unlock()
		if n == 0 {
			close(a.first)
		}
		if err == nil {
			c.log.Info("session connected again", "attempts", n+1)
			return
		}
		if c.ctx.Err() != nil {
			return
		}
		c.log.Warn("connecting again failed", "err", err)
		if c.opts.Backoff.wait(c.ctx, n, 0) != nil {
			c.mu.Lock()
			c.again = nil
			c.mu.Unlock()
			return
		}
	}
}

func (c *Client) tryConnect() (*session, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.opts.CallTimeout, errors.New("client: connecting took too long"))
	defer cancel()
	return c.connect(ctx)
}
