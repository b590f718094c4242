package port

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// AfterReply calls f after the reply to the caller's request has been passed to its connection. Messages sent by f
// therefore follow the reply (MCPE-NOTE-3). If the carrier is not part of this module, f is called in a new goroutine
// immediately.
func (c Caller) AfterReply(f func()) {
	if c.reply == nil || !c.reply.Add(f) {
		go f()
	}
}

// ReplyHeader is the header that identifies a call's session and pending reply. A carrier sets it only in RequestExtra
// and deletes it from every request that it receives.
const ReplyHeader = "X-Mcpe-Reply"

// A Reply calls functions once the response to a call has been written or can no longer be written. The zero value is
// ready to use.
type Reply struct {
	mu    sync.Mutex
	over  bool
	after []func()
}

// Finish calls the functions. A carrier must call it at least once, when the response has been written or can no longer
// be written.
func (r *Reply) Finish() {
	r.mu.Lock()
	after := r.after
	r.over, r.after = true, nil
	r.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// Add registers f for Finish. After Finish it returns false and does not call f.
func (r *Reply) Add(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.after = append(r.after, f)
	}
	return !r.over
}

// A reply is the pending reply to a call that a carrier passed to the SDK.
type reply struct {
	Reply
	ctx                 context.Context // done when the caller can no longer receive the reply
	session, connection string
	local               bool
}

// endedContext is the context of a request whose client has disconnected.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// ExpectReply creates a ticket for a call that a carrier passes to the SDK under [ReplyHeader]. session is the key of
// the session's outlet, or "" for a call without a session. connection and local are as in [Caller]. ctx must be done
// when the caller has disconnected, so that its requests are not held open. If ctx is never done, the caller can
// reconnect to receive the response, and its call continues after replied is called. The carrier must call replied at
// least once, when the reply has been sent or can no longer be sent.
func (h *Hub) ExpectReply(ctx context.Context, session, connection string, local bool) (ticket string, replied func()) {
	r := &reply{ctx: ctx, session: session, connection: connection, local: local}
	ticket = rand.Text()
	if ctx.Done() == nil && session != "" {
		ticket += ticketSeparator + session // the SDK might start the call after the reply has been deleted
	}
	h.replies.Store(ticket, r)
	return ticket, func() {
		h.replies.Delete(ticket)
		r.Finish()
	}
}

// ticketSeparator separates a ticket's text from the session of a call that continues without its connection.
const ticketSeparator = " "

// replyOf returns the pending reply to a call, or nil if the carrier is not part of this module. If the call's
// connection was closed before the SDK started the call, the reply is already finished.
func (h *Hub) replyOf(extra *mcp.RequestExtra) *reply {
	if extra == nil || extra.Header.Get(ReplyHeader) == "" {
		return nil
	}
	ticket := extra.Header.Get(ReplyHeader)
	if v, ok := h.replies.Load(ticket); ok {
		return v.(*reply)
	}
	if _, session, ok := strings.Cut(ticket, ticketSeparator); ok {
		return &reply{ctx: context.Background(), session: session, Reply: Reply{over: true}}
	}
	return &reply{ctx: endedContext, Reply: Reply{over: true}}
}

// UntilGone returns a context that is also canceled when the caller's connection or session ends. The SDK might not
// detect that, or might wait for the request to finish. The caller must call the returned CancelFunc.
func (h *Hub) UntilGone(ctx context.Context, extra *mcp.RequestExtra, principal string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r := h.replyOf(extra)
	if r == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(r.ctx, cancel)
	leave := func() {}
	if r.session != "" {
		leave = h.UntilEnd(r.session, principal, cancel)
	}
	return ctx, func() {
		stop()
		leave()
		cancel()
	}
}

// An ownedSession is a session and its owner. Another principal must not end the owner's requests.
type ownedSession struct{ session, principal string }

// heldCalls tracks the requests to cancel when their session ends.
type heldCalls struct {
	mu     sync.Mutex
	calls  map[ownedSession]map[*context.CancelFunc]struct{}
	ending map[ownedSession]int // number of requests currently ending the session
}

func (h *heldCalls) add(s ownedSession, cancel context.CancelFunc) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending[s] > 0 {
		cancel()
	}
	if h.calls == nil {
		h.calls = map[ownedSession]map[*context.CancelFunc]struct{}{}
	}
	if h.calls[s] == nil {
		h.calls[s] = map[*context.CancelFunc]struct{}{}
	}
	h.calls[s][&cancel] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.calls[s], &cancel); len(h.calls[s]) == 0 {
			delete(h.calls, s)
		}
	}
}

// end cancels all requests of a session, including requests that the SDK starts before ended is called.
func (h *heldCalls) end(s ownedSession) (ended func()) {
	h.mu.Lock()
	calls := h.calls[s]
	delete(h.calls, s)
	if h.ending == nil {
		h.ending = map[ownedSession]int{}
	}
	h.ending[s]++
	h.mu.Unlock()
	for cancel := range calls {
		(*cancel)()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ending[s]--; h.ending[s] == 0 {
			delete(h.ending, s)
		}
	}
}

// WithReply returns a copy of extra with the ticket in its header.
func WithReply(extra any, ticket string) *mcp.RequestExtra {
	made := &mcp.RequestExtra{}
	if e, ok := extra.(*mcp.RequestExtra); ok && e != nil {
		*made = *e
	}
	made.Header = made.Header.Clone()
	if made.Header == nil {
		made.Header = http.Header{}
	}
	made.Header.Set(ReplyHeader, ticket)
	return made
}
