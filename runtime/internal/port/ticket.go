package port

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TicketHeader is the header, in RequestExtra only and never on the wire, that ties a request in
// the SDK to the carrier it came by. A carrier deletes it from every request that it receives.
const TicketHeader = "X-Mcpe-Ticket"

// A Ticket is one request of a carrier on its way through the SDK.
type Ticket struct {
	Ctx   context.Context // the request's
	ID    json.RawMessage
	Claim Claim // nil for none
	reply reply
}

// A Claim is given an accepted stream; its result is the request's.
type Claim func(ctx context.Context, ss *mcp.ServerSession, st Stream) (json.RawMessage, error)

// Issue makes a ticket for an events/* request that a carrier passes through the SDK under
// [TicketHeader]. The request counts as one that can stream, its id is id with its digits
// unchanged (the SDK's own would lose some), and it ends when ctx ends, also where the SDK does
// not notice that the client went away (POLL-9). For events/stream the accepted stream is given
// to claim, whose result is the request's; without a claim the method is Unsupported. The carrier
// calls release, once or more, when the answer is written or never comes: webhook deliveries that the
// request has made possible begin after that.
func (h *Hub) Issue(ctx context.Context, id json.RawMessage, claim Claim) (text string, release func()) {
	text = newTicket()
	t := &Ticket{Ctx: ctx, ID: id, Claim: claim}
	h.tickets.Store(text, t)
	return text, func() {
		h.tickets.Delete(text)
		t.reply.finish()
	}
}

// Ticket returns the ticket of a request; nil for one that came past the carriers. That of a request whose client
// went away before the SDK came to it is over: its context has ended.
func (h *Hub) Ticket(extra *mcp.RequestExtra) *Ticket {
	if extra == nil || extra.Header.Get(TicketHeader) == "" {
		return nil
	}
	if v, ok := h.tickets.Load(extra.Header.Get(TicketHeader)); ok {
		return v.(*Ticket)
	}
	return &Ticket{Ctx: endedContext, reply: reply{over: true}}
}

// endedContext is that of a request whose client has gone.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// AfterReply is [Request.AfterReply] of the ticket's request.
func (t *Ticket) AfterReply(f func()) bool { return t.reply.add(f) }

func newTicket() string { return rand.Text() }

// AfterReply calls f once the reply to the caller's request has been handed to its connection, so
// that what f sends comes after it (MCPE-NOTE-3). Where no carrier of ours is under the request,
// f is called soon.
func (c Caller) AfterReply(f func()) {
	if c.reply == nil || !c.reply.add(f) {
		go f()
	}
}

// ReplyHeader is the header, in RequestExtra only and never on the wire, by which a carrier tells
// which session a call came by and when it was answered. A carrier deletes it from every request
// that it receives.
const ReplyHeader = "X-Mcpe-Reply"

type reply struct {
	ctx                 context.Context // ends when nobody can be answered any more
	session, connection string
	local               bool

	mu    sync.Mutex
	over  bool
	after []func()
}

// finish says that the reply is on its way or never comes.
func (r *reply) finish() {
	r.mu.Lock()
	after := r.after
	r.over, r.after = true, nil
	r.mu.Unlock()
	for _, f := range after {
		f()
	}
}

func (r *reply) add(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.after = append(r.after, f)
	}
	return !r.over
}

// ExpectReply makes a ticket for a call that a carrier passes to the SDK under [ReplyHeader];
// session is the key of the outlet of its session, "" for none; connection and local are as in
// [Caller]; ctx ends when the caller has gone, so that nothing is held open for it. A caller whose ctx has no end may
// come back for the answer: its call goes on after replied. The carrier calls replied, once or more, when the reply is
// on its way or never comes.
func (h *Hub) ExpectReply(ctx context.Context, session, connection string, local bool) (ticket string, replied func()) {
	r := &reply{ctx: ctx, session: session, connection: connection, local: local}
	ticket = newTicket()
	if ctx.Done() == nil && session != "" {
		ticket += lasting + session // which the SDK may come to when nothing else is left of the ticket
	}
	h.replies.Store(ticket, r)
	return ticket, func() {
		h.replies.Delete(ticket)
		r.finish()
	}
}

// lasting parts the text of a ticket from the session of a call that goes on without its connection.
const lasting = " "

// replyOf returns what a carrier of ours told of a call's reply; nil without one. That of a call whose connection
// ended before the SDK came to it is over.
func (h *Hub) replyOf(extra *mcp.RequestExtra) *reply {
	if extra == nil || extra.Header.Get(ReplyHeader) == "" {
		return nil
	}
	ticket := extra.Header.Get(ReplyHeader)
	if v, ok := h.replies.Load(ticket); ok {
		return v.(*reply)
	}
	if _, session, ok := strings.Cut(ticket, lasting); ok {
		return &reply{ctx: context.Background(), session: session, over: true}
	}
	return &reply{ctx: endedContext, over: true}
}

// UntilGone returns a context that also ends when the principal who makes a request has gone, where the SDK does not
// notice it or waits for the request: its connection ends, or its session. The caller calls cancel.
func (h *Hub) UntilGone(ctx context.Context, extra *mcp.RequestExtra, principal string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r := h.replyOf(extra)
	if r == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(r.ctx, cancel)
	leave := func() {}
	if r.session != "" {
		leave = h.held.add(sessionOf{r.session, principal}, cancel)
	}
	return ctx, func() {
		stop()
		leave()
		cancel()
	}
}

// A sessionOf is a session with whom it belongs to: who knows another's cannot end what it holds.
type sessionOf struct{ session, principal string }

// held are the requests of sessions that end with them.
type held struct {
	mu     sync.Mutex
	calls  map[sessionOf]map[*context.CancelFunc]struct{}
	ending map[sessionOf]int // how many ask for its end
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

// end ends all requests of a session, and those that the SDK comes to before ended is called.
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
