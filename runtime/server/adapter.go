package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// adapters is what the server knows of the other protocols over the same event types. An adapter
// learns the types with [Server.Types], reads their occurrences with [Server.Follow], knows who
// calls its tools with [Server.CallerOf], reaches peers with [Server.Send] and
// [Server.SendToListeners], and shows itself with [Server.Advertise]. A client of events/* sees
// nothing of it.
type adapters struct {
	mu           sync.Mutex
	experimental []experimental
	topLevel     map[string]any
	hub          hub
	replies      sync.Map // ticket → *reply
}

type experimental struct {
	name  string
	value func(info *mcp.Implementation) any
}

// Types lists the event types that the principal may see, in the order of events/list. For
// adapters.
func (s *Server) Types(ctx context.Context, principal string) ([]events.Info, error) {
	s.mu.Lock()
	order := slices.Clone(s.order)
	s.mu.Unlock()
	var all []events.Info
	for _, et := range order {
		d := et.current()
		if d == nil {
			continue
		}
		ok, err := s.visible(ctx, principal, et.name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, d.info)
		}
	}
	return all, nil
}

// MayFollow reports whether [Server.Follow] would accept the request, as far as that can be known
// without the author's OnSubscribe: nil, or an [events.Error]. For adapters.
func (s *Server) MayFollow(ctx context.Context, principal, event string, arguments json.RawMessage) error {
	ctx = hook.WithPrincipal(ctx, principal)
	_, d, err := s.lookup(ctx, principal, event)
	if err != nil {
		return err
	}
	a, err := d.parse(arguments)
	if err != nil {
		return err
	}
	return s.authorized(ctx, principal, a)
}

// Head returns the cursor of the present end of an event type's log, "" where there is none. For
// adapters.
func (s *Server) Head(event string) string {
	s.mu.Lock()
	et := s.types[event]
	s.mu.Unlock()
	if et == nil || et.topic == nil {
		return ""
	}
	d := et.current()
	if d == nil || d.check != nil {
		return ""
	}
	_, head := et.topic.Bounds()
	var text string
	_ = json.Unmarshal(et.topic.Cursor(&d.Type, head), &text)
	return text
}

// Advertise puts a value below capabilities.experimental in the results of initialize and
// server/discover (MCPE-CAP-1). It is computed for each; info names the server. For adapters.
func (s *Server) Advertise(name string, value func(info *mcp.Implementation) any) {
	s.adapters.mu.Lock()
	defer s.adapters.mu.Unlock()
	s.adapters.experimental = append(s.adapters.experimental, experimental{name, value})
}

// withExperimental returns capabilities with what adapters advertise.
func (s *Server) withExperimental(c *mcp.ServerCapabilities, info *mcp.Implementation) *mcp.ServerCapabilities {
	s.adapters.mu.Lock()
	all := slices.Clone(s.adapters.experimental)
	s.adapters.mu.Unlock()
	if len(all) == 0 {
		return c
	}
	made := mcp.ServerCapabilities{}
	if c != nil {
		made = *c
	}
	made.Experimental = maps.Clone(made.Experimental)
	if made.Experimental == nil {
		made.Experimental = map[string]any{}
	}
	for _, e := range all {
		made.Experimental[e.name] = e.value(info)
	}
	return &made
}

// A Caller is who made a request that reached an adapter. For adapters.
type Caller struct {
	// Principal is the authenticated caller, "" for nobody (AUTH-3).
	Principal string
	// Expires is when the caller's token expires; zero for never.
	Expires time.Time
	// Stateless tells that the request follows revision 2026-07-28 or later.
	Stateless bool
	// Session is the key by which [Server.Send] reaches the caller's session; "" where there is no
	// session, or no carrier of ours under it.
	Session string
	// Connection is the key by which [Server.Send] reaches the message connection, such as stdio,
	// that the call came by, in either era; "" over HTTP.
	Connection string
	// ServerSession is the SDK's session of the request; in the stateless era it lives no longer
	// than the request.
	ServerSession *mcp.ServerSession
	// Local tells that the caller is the process that started this one, or this one itself: stdio
	// or an in-memory transport.
	Local bool

	reply *reply
}

// CallerOf tells who made a request to the SDK's server. For adapters.
func (s *Server) CallerOf(ctx context.Context, req mcp.Request) Caller {
	extra := req.GetExtra()
	var c Caller
	c.Principal, c.Expires = s.Authenticate(ctx, extra)
	c.ServerSession, _ = req.GetSession().(*mcp.ServerSession)
	version := ""
	if v, ok := req.(interface{ ProtocolVersion() string }); ok {
		version = v.ProtocolVersion()
	}
	c.Stateless = version >= wire.RevisionStateless
	if extra != nil {
		if v, ok := s.adapters.replies.Load(extra.Header.Get(ReplyHeader)); ok {
			c.reply = v.(*reply)
			c.Local, c.Connection = c.reply.local, c.reply.connection
			if !c.Stateless {
				c.Session = c.reply.session
			}
		}
	}
	return c
}

// AfterReply calls f once the reply to the caller's request has been handed to its connection, so
// that what f sends comes after it (MCPE-NOTE-3). Where no carrier of ours is under the request,
// f is called soon. For adapters.
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
// [Caller]. The carrier calls replied, once or more, when the reply is on its way or never comes.
// For carriers.
func (s *Server) ExpectReply(session, connection string, local bool) (ticket string, replied func()) {
	r := &reply{session: session, connection: connection, local: local}
	ticket = newTicket()
	s.adapters.replies.Store(ticket, r)
	return ticket, func() {
		s.adapters.replies.Delete(ticket)
		r.finish()
	}
}

// WithReply returns extra with the ticket in its header. For carriers.
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

// errFollowerClosed ends a follower that its adapter closed.
var errFollowerClosed = errors.New("server: follower is closed")
