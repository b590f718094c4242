// Package port gives carriers and adapters access to the internals of a server, which are hidden from its author. They
// obtain access with [Of] and communicate through the [Hub].
//
// A carrier passes requests to the server and writes its streams. Package transport contains the carriers. An adapter
// implements another protocol for the same event types. Packages mcpe, mcpc and conversation contain the adapters.
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
	// Of returns the Port of a *server.Server. It returns nil for a nil server and for a value of any other type.
	Of func(server any) *Port
	// Encode validates and encodes a payload as Emit does, but does not emit it. It returns the event type's name and
	// the encoded payload. emitter is a *server.Emitter[any], and payload points to a payload of its type. Errors are
	// Emit's.
	Encode func(emitter, payload any) (event string, data json.RawMessage, err error)
)

// Inside is the set of server methods for carriers and adapters.
type Inside interface {
	// MCP returns the SDK's server to which this server belongs.
	MCP() *mcp.Server
	// Receiving returns the handler of the SDK's server, wrapped in all its receiving middleware. It returns nil if
	// there is only middleware of this module, which events methods bypass (see AddMiddleware).
	Receiving() mcp.MethodHandler
	// AddMiddleware adds receiving middleware of this module to the SDK's server. Events methods bypass it.
	AddMiddleware(m mcp.Middleware)
	// Shared reports whether other processes serve from the same store (REP-18).
	Shared() bool
	// Logger returns the logger for errors that must not be sent to callers.
	Logger() *slog.Logger
	// MaxParams returns the maximum size of the params of an extension request, in bytes of JSON (CAP-5).
	MaxParams() int
	// Heartbeat returns the interval of heartbeats on idle responses that stay open (PUSH-4).
	Heartbeat() time.Duration
	// RecheckInterval returns the interval at which live streams and webhook subscriptions are reauthorized (AUTH-2). It
	// is negative if they are not.
	RecheckInterval() time.Duration
	// Closing returns a channel that is closed when Shutdown starts.
	Closing() <-chan struct{}
	// Authenticate returns the caller of a request and when its token expires (AUTH-3, AUTH-4).
	Authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time)
	// Capabilities returns the value of the events capability, for both places that advertise it (D1).
	Capabilities(stateless bool) json.RawMessage
	// SetListChanged declares whether the carriers can send list_changed notifications in legacy sessions and in listen
	// requests of stateless clients. A declaration cannot be withdrawn (CAP-1).
	SetListChanged(legacy, stateless bool)
	// OnListChanged calls f after every change of the event types or of a descriptor, until stop is called (LIST-5). f
	// is called from the goroutine that makes the change.
	OnListChanged(f func()) (stop func())

	// Call handles a request with any method. A carrier that supports events/stream must pass such requests to Open
	// instead. The result is complete JSON. The error is always an unwrapped *jsonrpc.Error that can be sent to the
	// caller.
	Call(ctx context.Context, r Request) (json.RawMessage, error)
	// Open validates and accepts an events/stream request (ERR-2). The error is always an unwrapped *jsonrpc.Error.
	// After an error, no resources remain in use. A null cursor means that the stream starts at the time of this call
	// (PUSH-1).
	Open(ctx context.Context, r Request) (Stream, error)

	// Types returns the event types that the principal is allowed to see, in the order of events/list.
	Types(ctx context.Context, principal string) ([]events.Info, error)
	// MayFollow reports whether Follow would accept the request. It does not call the author's OnSubscribe. It returns
	// nil or an [events.Error].
	MayFollow(ctx context.Context, principal, event string, arguments json.RawMessage) error
	// Follow validates the request like an events/stream request and opens a follower. Errors are [events.Error]s or
	// internal errors. The adapter must call Close.
	Follow(ctx context.Context, r FollowRequest) (Follower, error)
	// Head returns the cursor at the current end of an event type's log, or "" if the type does not have a log.
	Head(event string) string
	// EncodePayload is like [Encode], but identifies the event type by name. It also works for a type with a check. The
	// error is [events.ErrNotFound] for an unknown name, and [events.ErrInvalidPayload] for a payload of another type.
	EncodePayload(event string, payload any) (json.RawMessage, error)
}

// CheckAlone returns an error if other processes can use the server's store. The given protocol keeps its state in one
// process, so two processes would duplicate work (REP-18).
func (p *Port) CheckAlone(protocol string) error {
	if !p.Shared() {
		return nil
	}
	return fmt.Errorf("%s keeps its state in one process, so it cannot be served on a store that processes share (engine.Shared), "+
		"whatever store it has itself; use a server with a store of one process, such as SQLite", protocol)
}

// AsPrincipal returns a context for which server.PrincipalOf returns the principal.
func AsPrincipal(ctx context.Context, principal string) context.Context {
	return hook.WithPrincipal(ctx, principal)
}

// A Caller is the caller of a request that reached an adapter.
type Caller struct {
	// Principal is the authenticated caller, or "" if unauthenticated (AUTH-3).
	Principal string
	// Expires is when the caller's token expires. The zero time means never.
	Expires time.Time
	// Stateless reports whether the request follows revision 2026-07-28 or later.
	Stateless bool
	// Session is the key of the caller's session for [Hub.Send]. It is "" for a call without a session, or if the
	// carrier is not part of this module.
	Session string
	// Connection is the key of the call's message connection, such as stdio, for [Hub.Send]. It is set for stateless
	// clients too, but is "" over HTTP.
	Connection string
	// ServerSession is the SDK's session for the request. For a stateless client, it ends with the request.
	ServerSession *mcp.ServerSession
	// Local reports whether the caller is this process or its parent, connected by stdio or an in-memory transport.
	Local bool

	reply *reply
}

// CallerOf returns the caller of a request received by the SDK's server.
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
