package server

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

func (s portAdapter) Open(ctx context.Context, r port.Request) (port.Stream, error) {
	st, err := s.open(ctx, &r)
	if err != nil {
		return nil, s.rpcError(ctx, &r, err)
	}
	return st, nil
}

// open accepts an events/stream request. It checks the request in the order of ERR-2.
func (s *Server) open(ctx context.Context, r *port.Request) (*streaming.Stream, error) {
	if err := fault.Bounded(r.Params, s.options.MaxParams); err != nil {
		return nil, err
	}
	p, err := wire.DecodeStreamParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	ctx = hook.WithPrincipal(ctx, r.Principal)
	et, d, err := s.lookup(ctx, r.Principal, p.Name)
	if err != nil {
		return nil, err
	}
	if !d.pushes() || !r.CanStream {
		return nil, fault.UnsupportedMode(wire.ModePush)
	}
	if err := et.Refuses(); err != nil {
		return nil, err
	}
	head := et.Head()
	a, err := s.parseArguments(ctx, r.Principal, d, p.Arguments)
	if err != nil {
		return nil, err
	}
	replay := topic.ReplayOf(p.Cursor, p.MaxAgeMs)
	if head, err = et.topic.Now(ctx, d.Kernel(), head, replay); err != nil {
		return nil, err
	}
	return s.streams.Open(ctx, streaming.Request{Type: et, Sub: eventtype.Identify(wire.ModePush, r.Principal, "", a), Args: a,
		Replay: replay, Head: head, Max: d.options.maxStreams,
		ID: r.ID, Stateless: r.Stateless, Dialect: s.dialectFor(r.DeclaresExtension), Expires: r.Expires})
}

// Follow performs the same checks as events/stream and opens a follower. It returns an [events.Error] or an internal
// error. The adapter must close the follower.
func (s portAdapter) Follow(ctx context.Context, r port.FollowRequest) (port.Follower, error) {
	ctx = hook.WithPrincipal(ctx, r.Principal)
	et, d, err := s.lookup(ctx, r.Principal, r.Event)
	if err != nil {
		return nil, err
	}
	if e := et.Refuses(); e != nil {
		return nil, e
	}
	a, err := s.parseArguments(ctx, r.Principal, d, r.Arguments)
	if err != nil {
		return nil, err
	}
	f, err := s.streams.Follow(ctx, streaming.Request{Type: et, Sub: eventtype.Identify(r.Mode, r.Principal, "", a), Args: a, Replay: topic.ReplayOf(r.Cursor, nil)})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A leaseHost calls the author's hooks when subscriptions begin and end. It implements [lease.Host].
type leaseHost struct {
	*access.Gate
	s *Server
}

// hookTimeout limits a call to OnUnsubscribe, which runs after its request or stream has ended.
const hookTimeout = 30 * time.Second

func (h leaseHost) Hears(a eventtype.Arguments) bool {
	hooks := definitionOf(a).hooks
	return hooks.OnSubscribe != nil || hooks.OnUnsubscribe != nil
}

func (h leaseHost) Subscribed(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error {
	d := definitionOf(a)
	if d.hooks.OnSubscribe == nil {
		return nil
	}
	return d.guard("OnSubscribe", func() error { return d.hooks.OnSubscribe(ctx, Subscription(sub), a.Typed()) })
}

func (h leaseHost) Unsubscribed(sub eventtype.Subscription, a eventtype.Arguments) {
	d := definitionOf(a)
	if d.hooks.OnUnsubscribe == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	err := d.guard("OnUnsubscribe", func() error {
		d.hooks.OnUnsubscribe(hook.WithPrincipal(ctx, sub.Principal), Subscription(sub), a.Typed())
		return nil
	})
	if err != nil {
		h.s.log.Internal(ctx, "OnUnsubscribe", err)
	}
}

func (h leaseHost) Take(principal string, n int) error { return h.s.memoryUsage.Take(principal, n) }
func (h leaseHost) Give(principal string, n int)       { h.s.memoryUsage.Give(principal, n) }
