package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// PrincipalOf returns the principal for which a check or hook runs. It returns "" if the check or hook runs without a
// principal. A check declared with [WithSharedCheck] runs without a principal, and so does Transform, because their
// results are shared.
//
// In a tool, prompt, resource or completion handler of the mcp.Server, it returns the caller's principal as determined
// by [Options].Principal.
func PrincipalOf(ctx context.Context) string { return hook.Principal(ctx) }

// A caller is the authenticated sender of a request.
type caller struct {
	server    *Server
	extra     *mcp.RequestExtra
	principal string
	expires   time.Time
}

type callerKey struct{}

// withCaller returns a request's context with the caller added. The author's handler and later calls to authenticate
// read it from the context.
func (s *Server) withCaller(ctx context.Context, extra *mcp.RequestExtra) context.Context {
	c := &caller{server: s, extra: extra}
	c.principal, c.expires = s.authenticate(ctx, extra)
	return hook.WithPrincipal(context.WithValue(ctx, callerKey{}, c), c.principal)
}

// authenticate returns the principal of a request and the expiry of its token (AUTH-3, AUTH-4).
func (s *Server) authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time) {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok && c.server == s && c.extra == extra {
		return c.principal, c.expires
	}
	if extra == nil {
		extra = &mcp.RequestExtra{}
	}
	if extra.TokenInfo != nil {
		principal, expires = extra.TokenInfo.UserID, extra.TokenInfo.Expiration
	}
	if f := s.options.Principal; f != nil {
		principal = ""
		if err := guard("Principal", func() error { principal = f(ctx, extra); return nil }); err != nil {
			s.log.Internal(ctx, "deriving the principal", err)
		}
	}
	return principal, expires
}

// lookup returns the type with the given name if the principal may see it.
func (s *Server) lookup(ctx context.Context, principal, name string) (*eventType, *definition, error) {
	et := s.eventType(name)
	if et == nil {
		return nil, nil, fault.NotFound("event")
	}
	d := et.current()
	if d == nil {
		return nil, nil, fault.NotFound("event")
	}
	ok, err := s.access.IsVisible(ctx, principal, name)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, fault.NotFound("event")
	}
	return et, d, nil
}

// parseArguments parses the arguments of a request and authorizes them with both Authorize hooks.
func (s *Server) parseArguments(ctx context.Context, principal string, d *definition, raw json.RawMessage) (eventtype.Arguments, error) {
	a, err := eventtype.Parse(d, raw)
	if err == nil {
		err = s.access.Admit(ctx, principal, a)
	}
	return a, err
}

// Revoke ends the principal's live subscriptions to the named events, or to all events if none are named. Streams,
// webhooks, and waiting polls and tools end with the error that Authorize now returns, or with Forbidden. Poll leases
// also end. Revoke does not block new subscriptions, which are decided by the hooks. On a shared store, every process
// does the same. An error means that some processes may not have received the request (REP-13). See AUTH-2.
func (s *Server) Revoke(ctx context.Context, principal string, names ...string) error {
	return s.parts.Revoke(ctx, principal, names)
}

// Reauthorize rechecks the principal's live subscriptions to the named events, or to all events if none are named. It
// ends the streams, pollers, webhook subscriptions, and waiting polls and tools that the hooks reject. Other processes
// on the same store do the same, as with [Server.Revoke]. See AUTH-2.
func (s *Server) Reauthorize(ctx context.Context, principal string, names ...string) error {
	return s.parts.Reauthorize(ctx, principal, names)
}

// RefreshVisibility reruns the Visible hook for every live stream, poller and webhook subscription. Subscriptions to
// types that have become hidden end with NotFound. Clients are notified that their lists may have changed. Other
// processes on the same store do the same, as with [Server.Revoke]. See LIST-4, LIST-5.
func (s *Server) RefreshVisibility(ctx context.Context) error {
	return s.parts.RefreshVisibility(ctx)
}

// guard calls f, which runs a hook from the options, and converts a panic to an error.
func guard(name string, f func() error) error { return hook.Place{Hook: name}.Run(f) }
