package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
)

// PrincipalOf returns the principal that a check or hook runs for, "" for nobody. A check declared
// with [WithSharedCheck] runs for nobody, and so does Transform, whose result is shared.
func PrincipalOf(ctx context.Context) string { return hook.Principal(ctx) }

// authenticate derives the caller of a request and when its token expires (AUTH-3, AUTH-4).
func (s *Server) authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time) {
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

// visible asks the Visible hook (LIST-4).
func (s *Server) visible(ctx context.Context, principal, event string) (ok bool, err error) {
	if s.options.Visible == nil {
		return true, nil
	}
	err = guard("Visible", func() error { ok = s.options.Visible(ctx, principal, event); return nil })
	return ok, err
}

// authorized asks both Authorize hooks (AUTH-1).
func (s *Server) authorized(ctx context.Context, principal string, a arguments) error {
	if f := s.options.Authorize; f != nil {
		if err := guard("Authorize", func() error { return f(ctx, principal, a.def.info.Name, a.Canonical()) }); err != nil {
			return fault.AsForbidden(ctx, err)
		}
	}
	if f := a.def.hooks.Authorize; f != nil {
		if err := a.def.guard("Authorize", func() error { return f(ctx, principal, a.Typed()) }); err != nil {
			return fault.AsForbidden(ctx, err)
		}
	}
	return nil
}

// refused asks again for a live subscription. Only a decision ends it: a failing hook or a lost
// context is no decision (AUTH-2, LIST-4).
func (s *Server) refused(ctx context.Context, principal string, a arguments) *events.Error {
	ok, err := s.visible(ctx, principal, a.def.info.Name)
	if err == nil && !ok {
		return fault.NotFound("event")
	}
	if err == nil {
		err = s.authorized(ctx, principal, a)
	}
	var e *events.Error
	if errors.As(err, &e) && e.Kind != wire.Internal && e.Kind != wire.UpstreamError {
		return e
	}
	if err != nil {
		s.log.Internal(ctx, "asking Authorize again", err)
	}
	return nil
}

// Revoke ends the principal's live subscriptions to the named events, or to all when none are named: streams and
// webhooks are terminated with Forbidden, or with what Authorize says now; poll leases end. It forbids nothing:
// whether the principal may subscribe again is what the hooks say then. On a store that processes share, all of
// them do so; an error says that some may not know of it (REP-13). See AUTH-2.
func (s *Server) Revoke(ctx context.Context, principal string, names ...string) error {
	s.revoke(ctx, principal, names)
	return wrapped("revoking", s.cluster.tell(ctx, orders.Order{Kind: orders.Revoke, Principal: principal, Names: names}))
}

// wrapped says what failed, if anything did.
func wrapped(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (s *Server) revoke(ctx context.Context, principal string, names []string) {
	s.revokeStreams(ctx, principal, names)
	s.revokeWebhooks(ctx, subscriber.OfPrincipal(principal, names))
}

func (s *Server) revokeStreams(ctx context.Context, principal string, names []string) {
	s.forStreams(principal, names, func(st *pushStream) {
		e := s.refused(ctx, principal, st.arguments())
		if e == nil {
			e = orders.Revoked()
		}
		st.end(e)
	})
	s.leases.endOf(principal, names)
}

// revokeWebhooks ends the webhook subscriptions that which picks.
func (s *Server) revokeWebhooks(ctx context.Context, which func(*subscriber.Live) bool) {
	w := s.webhooks
	if w == nil {
		return
	}
	w.Each(which, func(h *subscriber.Live) {
		e := s.refused(ctx, h.Principal, argumentsOf(h.Arguments()))
		if e == nil {
			e = orders.Revoked()
		}
		w.End(h, e)
	})
}

// Reauthorize asks the hooks again, now, for the principal's live streams and webhook subscriptions to the named
// events, or to all when none are named, and ends those that are refused. Other processes on the same store do the
// same, as with [Server.Revoke]. See AUTH-2.
func (s *Server) Reauthorize(ctx context.Context, principal string, names ...string) error {
	s.recheck(ctx, principal, names)
	return wrapped("checking again", s.cluster.tell(ctx, orders.Order{Kind: orders.Recheck, Principal: principal, Names: names}))
}

func (s *Server) recheck(ctx context.Context, principal string, names []string) {
	s.forStreams(principal, names, func(st *pushStream) {
		if e := s.refused(ctx, principal, st.arguments()); e != nil {
			st.end(e)
		}
	})
	if w := s.webhooks; w != nil {
		w.Each(subscriber.OfPrincipal(principal, names), func(h *subscriber.Live) { w.Recheck(ctx, h) })
	}
}

func (s *Server) forStreams(principal string, names []string, f func(*pushStream)) {
	for _, st := range s.streamsOf(nil) {
		if st.sub.Principal == principal && (len(names) == 0 || slices.Contains(names, st.sub.Event)) {
			f(st)
		}
	}
}

// RefreshVisibility asks the Visible hook again for every live stream and webhook subscription, ends those whose
// type is now hidden with NotFound, and tells clients that their lists may have changed. Other processes on the
// same store do the same, as with [Server.Revoke]. See LIST-4, LIST-5.
func (s *Server) RefreshVisibility(ctx context.Context) error {
	s.refreshVisibility(ctx)
	return wrapped("refreshing what is visible", s.cluster.tell(ctx, orders.Order{Kind: orders.Visibility}))
}

func (s *Server) refreshVisibility(ctx context.Context) {
	for _, st := range s.streamsOf(nil) {
		ok, err := s.visible(ctx, st.sub.Principal, st.sub.Event)
		if err != nil {
			s.log.Internal(ctx, "asking Visible again", err)
			continue
		}
		if !ok {
			st.end(fault.NotFound("event"))
		}
	}
	if w := s.webhooks; w != nil {
		w.Each(anyWebhook, func(h *subscriber.Live) {
			ok, err := s.visible(ctx, h.Principal, h.Type.Name())
			if err != nil {
				s.log.Internal(ctx, "asking Visible again", err)
			} else if !ok {
				w.End(h, fault.NotFound("event"))
			}
		})
	}
	s.notifyListChanged()
}

// takeSlot counts a stream against the principal's caps (PUSH-10).
func (s *Server) takeSlot(principal string, d *definition) error {
	all, one := quotaKey{principal: principal}, quotaKey{principal, d.info.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.options.MaxStreams; n > 0 && s.quota[all] >= n {
		return fault.Exhausted("streams", n)
	}
	if n := d.options.maxStreams; n > 0 && s.quota[one] >= n {
		return fault.Exhausted("streams", n)
	}
	s.quota[all]++
	s.quota[one]++
	return nil
}

func (s *Server) freeSlot(principal, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range []quotaKey{{principal: principal}, {principal, event}} {
		if s.quota[k]--; s.quota[k] <= 0 {
			delete(s.quota, k)
		}
	}
}

// guard runs a hook of the options.
func guard(name string, f func() error) error { return hook.Place{Hook: name}.Run(f) }
