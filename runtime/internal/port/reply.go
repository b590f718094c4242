package port

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// AfterReply calls f once the reply to the caller's request has been passed to its connection. Messages sent by f thus
// follow the reply (MCPE-NOTE-3). If the carrier is not this module's, f is called soon.
func (c Caller) AfterReply(f func()) {
	if c.reply == nil || !c.reply.Add(f) {
		go f()
	}
}

// ReplyHeader is the header with which a carrier identifies a call's session and reply. It is only in RequestExtra,
// never on the wire. A carrier deletes it from every request that it receives.
const ReplyHeader = "X-Mcpe-Reply"

// A Reply calls functions once the response to a call was written, or never will be. The zero value is ready to use.
type Reply struct {
	mu    sync.Mutex
	over  bool
	after []func()
}

// Finish calls the functions. A carrier calls it, once or more, when the response is written or will not be written.
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

// A reply is the pending reply of a call that a carrier passed to the SDK.
type reply struct {
	Reply
	ctx                 context.Context // ends when the caller can no longer be answered
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
// the outlet of its session, "" without one; connection and local are as in [Caller]. ctx ends when the caller has
// disconnected, so that nothing is held open for it. If ctx has no end, the caller may reconnect for the response: its
// call continues after replied. The carrier calls replied, once or more, when the reply is sent or will not be sent.
func (h *Hub) ExpectReply(ctx context.Context, session, connection string, local bool) (ticket string, replied func()) {
	r := &reply{ctx: ctx, session: session, connection: connection, local: local}
	ticket = rand.Text()
	if ctx.Done() == nil && session != "" {
		ticket += lasting + session // the SDK may start the call when only the ticket's text remains
	}
	h.replies.Store(ticket, r)
	return ticket, func() {
		h.replies.Delete(ticket)
		r.Finish()
	}
}

// lasting separates a ticket's text from the session of a call that continues without its connection.
const lasting = " "

// replyOf returns the pending reply of a call, nil if the carrier is not this module's. If the call's connection ended
// before the SDK started the call, the reply is over.
func (h *Hub) replyOf(extra *mcp.RequestExtra) *reply {
	if extra == nil || extra.Header.Get(ReplyHeader) == "" {
		return nil
	}
	ticket := extra.Header.Get(ReplyHeader)
	if v, ok := h.replies.Load(ticket); ok {
		return v.(*reply)
	}
	if _, session, ok := strings.Cut(ticket, lasting); ok {
		return &reply{ctx: context.Background(), session: session, Reply: Reply{over: true}}
	}
	return &reply{ctx: endedContext, Reply: Reply{over: true}}
}

// UntilGone returns a context that also ends when the caller's connection or session ends. The SDK may not notice that
// end, or may wait for the request. The caller must call cancel.
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

// A sessionOf is a session with its owner: another principal must not end the owner's requests.
type sessionOf struct{ session, principal string }

// held holds the requests that end with their sessions.
type held struct {
	mu     sync.Mutex
	calls  map[sessionOf]map[*context.CancelFunc]struct{}
	ending map[sessionOf]int // how many requests end it at the moment
}

func (h *held) add(s sessionOf, cancel context.CancelFunc) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending[s] > 0 {
		cancel()
	}
	if h.calls == nil {
		h.calls = map[sessionOf]map[*context.CancelFunc]struct{}{}
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

// end cancels all requests of a session, and the ones that the SDK starts before ended is called.
func (h *held) end(s sessionOf) (ended func()) {
	h.mu.Lock()
	calls := h.calls[s]
	delete(h.calls, s)
	if h.ending == nil {
		h.ending = map[sessionOf]int{}
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

// WithReply returns extra with the ticket in its header.
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
