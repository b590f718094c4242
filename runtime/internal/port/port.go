// Package port gives carriers and adapters access to the internals of a server, which its author does not see. Carriers
// are in package transport, adapters in packages mcpe, mcpc and conversation. They obtain access with [Of]. A carrier
// passes requests to the server and writes its streams; an adapter implements another protocol over the same event
// types. They communicate through the [Hub].
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

// A Port gives access to the internals of one server. It is safe for concurrent use.
type Port struct {
	*Hub
	Inside
}

// Package server sets these.
var (
	// Of returns the Port of a *server.Server. It returns nil for a nil server and for any other type.
	Of func(server any) *Port
	// Encode validates and encodes a payload like emitter's Emit, without emitting it, and returns the event type's
	// name. emitter is a *server.Emitter[any], payload a pointer to its payload. Errors are Emit's.
	Encode func(emitter, payload any) (event string, data json.RawMessage, err error)
)

// Inside has the server's methods for carriers and adapters.
type Inside interface {
	// MCP returns the SDK's server that this server was made for.
	MCP() *mcp.Server
	// Receiving returns the handler of the SDK's server with all its receiving middleware. It returns nil if all the
	// middleware is this module's, which events methods do not need (see AddMiddleware).
	Receiving() mcp.MethodHandler
	// AddMiddleware adds receiving middleware of this module to the SDK's server. Events methods do not pass through it.
	AddMiddleware(m mcp.Middleware)
	// Shared reports whether other processes serve from the same store (REP-18).
	Shared() bool
	// Logger returns the logger for errors that must not go on the wire.
	Logger() *slog.Logger
	// MaxParams returns the limit of a request's params for the extension, in bytes of JSON (CAP-5).
	MaxParams() int
	// Heartbeat returns the interval of heartbeats on idle responses that stay open (PUSH-4).
	Heartbeat() time.Duration
	// Closing returns a channel that is closed when Shutdown starts.
	Closing() <-chan struct{}
	// Authenticate returns the caller of a request and when its token expires (AUTH-3, AUTH-4).
	Authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time)
	// Capabilities returns the value of the events capability, for both places that advertise it (D1).
	Capabilities(stateless bool) json.RawMessage
	// SetListChanged declares in which eras the carriers can send list_changed to clients: legacy sessions, stateless
	// listen requests. It can only add (CAP-1).
	SetListChanged(legacy, stateless bool)
	// OnListChanged calls f after every change of the event types or of a descriptor, until stop is called
	// (LIST-5). f runs in the goroutine that makes the change.
	OnListChanged(f func()) (stop func())

	// Call answers a request of any method, except an events/stream that is to be carried, which Open accepts. The
	// result is complete JSON; the error is always a bare *jsonrpc.Error ready for the wire.
	Call(ctx context.Context, r Request) (json.RawMessage, error)
	// Open accepts an events/stream request after all checks of ERR-2. Its error is always a bare *jsonrpc.Error, and
	// leaves no state behind. A null cursor means the time of this call (PUSH-1).
	Open(ctx context.Context, r Request) (Stream, error)

	// Types returns the event types that the principal may see, in the order of events/list.
	Types(ctx context.Context, principal string) ([]events.Info, error)
	// MayFollow checks whether Follow would accept the request, without calling the author's OnSubscribe. It returns
	// nil or an [events.Error].
	MayFollow(ctx context.Context, principal, event string, arguments json.RawMessage) error
	// Follow opens a follower after the checks of events/stream. Errors are [events.Error]s or internal. The adapter
	// must call Close.
	Follow(ctx context.Context, r FollowRequest) (Follower, error)
	// Head returns the cursor at the current end of an event type's log, "" if it has no log.
	Head(event string) string
	// EncodePayload is [Encode] for an event type registered by name, such as one with a check. The error is
	// [events.ErrNotFound] for an unknown name, and [events.ErrInvalidPayload] for a payload of another type.
	EncodePayload(event string, payload any) (json.RawMessage, error)
}

// CheckAlone returns an error if other processes use the server's store. These protocols keep their state in one
// process, and two processes would both do work that only one may do (REP-18).
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

// A Caller is the caller of a request that reached an adapter.
type Caller struct {
	// Principal is the authenticated caller, "" if unauthenticated (AUTH-3).
	Principal string
	// Expires is when the caller's token expires; zero for never.
	Expires time.Time
	// Stateless says whether the request follows revision 2026-07-28 or later.
	Stateless bool
	// Session is the key with which [Hub.Send] reaches the caller's session. It is "" without a session, and if the
	// carrier is not this module's.
	Session string
	// Connection is the key with which [Hub.Send] reaches the call's message connection, such as stdio, in either era.
	// It is "" over HTTP.
	Connection string
	// ServerSession is the SDK's session of the request. In the stateless era it ends with the request.
	ServerSession *mcp.ServerSession
	// Local says whether the caller is this process or its parent: stdio or an in-memory transport.
	Local bool

	reply *reply
}

// CallerOf returns the caller of a request to the SDK's server.
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
