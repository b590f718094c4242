// Package port gives carriers (package transport) and adapters (packages mcpe, mcpc and
// conversation) access to the inside of a server, which its author does not see. They reach it with
// [Of]. A carrier brings requests to the server and writes its streams; an adapter speaks another
// protocol over the same event types. What they tell each other goes through the [Hub].
package port

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// A Port is the inside of one server. It is safe for concurrent use.
type Port struct {
	*Hub
	Inside
}

// Package server sets these.
var (
	// Of returns the inside of a *server.Server; nil for anything else, and for a nil one.
	Of func(server any) *Port
	// Encode validates and encodes a payload as the Emit of emitter does, without emitting it, and
	// names the event type. emitter is a *server.Emitter[any], payload a pointer to its payload.
	// Errors are Emit's.
	Encode func(emitter, payload any) (event string, data json.RawMessage, err error)
)

// Inside is what a server answers to carriers and adapters.
type Inside interface {
	// MCP is the SDK's server that this one was made for.
	MCP() *mcp.Server
	// Shared tells that other processes serve from the same store (REP-18).
	Shared() bool
	// Logger is for what never goes on the wire.
	Logger() *slog.Logger
	// MaxParams bounds the params of a request of the extension, in bytes of JSON (CAP-5).
	MaxParams() int
	// Heartbeat is the interval at which idle responses that stay open get a sign of life (PUSH-4).
	Heartbeat() time.Duration
	// Closing is closed when Shutdown begins.
	Closing() <-chan struct{}
	// Authenticate derives the caller of a request and when its token expires (AUTH-3, AUTH-4).
	Authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time)
	// Capabilities is the value of the events capability, for both places where it is advertised (D1).
	Capabilities(stateless bool) json.RawMessage
	// SetListChanged tells what list_changed notifications the carriers can bring to clients: of
	// legacy sessions, of the stateless era. It only ever adds (CAP-1).
	SetListChanged(legacy, stateless bool)
	// OnListChanged calls f after every change of the set of event types or of a descriptor, from the
	// goroutine that makes the change, until stop is called (LIST-5).
	OnListChanged(f func()) (stop func())

	// Call answers a request of any method but an events/stream that is to be carried: that one is
	// Open's. The result is complete JSON; the error is always a bare *jsonrpc.Error ready for the
	// wire.
	Call(ctx context.Context, r Request) (json.RawMessage, error)
	// Open accepts an events/stream request after all checks of ERR-2; on an error, always a bare
	// *jsonrpc.Error, nothing is left behind. A cursor of null stands for the moment of this call
	// (PUSH-1).
	Open(ctx context.Context, r Request) (Stream, error)

	// Types lists the event types that the principal may see, in the order of events/list.
	Types(ctx context.Context, principal string) ([]events.Info, error)
	// MayFollow reports whether Follow would accept the request, as far as that can be known without
	// the author's OnSubscribe: nil, or an [events.Error].
	MayFollow(ctx context.Context, principal, event string, arguments json.RawMessage) error
	// Follow opens a follower after the checks that events/stream makes. Errors are [events.Error]s or
	// internal. The adapter calls Close.
	Follow(ctx context.Context, r FollowRequest) (Follower, error)
	// Head returns the cursor of the present end of an event type's log, "" where there is none.
	Head(event string) string
	// EncodePayload is [Encode] for an event type that is registered by name, such as one with a check;
	// a name that is not is [events.ErrNotFound], a payload of another type than the event's is
	// [events.ErrInvalidPayload].
	EncodePayload(event string, payload any) (json.RawMessage, error)
}

// CheckAlone refuses a server whose store other processes use too: the state of these protocols is one
// process's, and two would each do what only one may (REP-18).
func (p *Port) CheckAlone(protocol string) error {
	if !p.Shared() {
		return nil
	}
	return fmt.Errorf("%s keeps its state in one process, so it cannot be served on a store that processes share (engine.Shared), "+
		"whatever store it has itself; use a server with a store of one process, such as SQLite", protocol)
}

// AsPrincipal returns a context whose server.PrincipalOf is the principal.
func AsPrincipal(ctx context.Context, principal string) context.Context {
	return hook.WithPrincipal(ctx, principal)
}

// A Caller is who made a request that reached an adapter.
type Caller struct {
	// Principal is the authenticated caller, "" for nobody (AUTH-3).
	Principal string
	// Expires is when the caller's token expires; zero for never.
	Expires time.Time
	// Stateless tells that the request follows revision 2026-07-28 or later.
	Stateless bool
	// Session is the key by which [Hub.Send] reaches the caller's session; "" where there is no
	// session, or no carrier of ours under it.
	Session string
	// Connection is the key by which [Hub.Send] reaches the message connection, such as stdio,
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

// CallerOf tells who made a request to the SDK's server.
func (p *Port) CallerOf(ctx context.Context, req mcp.Request) Caller {
	extra := req.GetExtra()
	var c Caller
	c.Principal, c.Expires = p.Authenticate(ctx, extra)
	c.ServerSession, _ = req.GetSession().(*mcp.ServerSession)
	version := ""
	if v, ok := req.(interface{ ProtocolVersion() string }); ok {
		version = v.ProtocolVersion()
	}
	c.Stateless = version >= wire.RevisionStateless
	if c.reply = p.replyOf(extra); c.reply != nil {
		c.Local, c.Connection = c.reply.local, c.reply.connection
		if !c.Stateless {
			c.Session = c.reply.session
		}
	}
	return c
}
