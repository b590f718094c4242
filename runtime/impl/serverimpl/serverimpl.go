// Package serverimpl is called by the code that mcpe-gen generates, and by nothing else: it has what generated
// registrations and emitters are made of. Programs use the generated functions and package server.
package serverimpl

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// An Emitter is what generated emitters are made of: each is a type of its own with Emitter's underlying type.
type Emitter server.Emitter[any]

// Emit is the Emit of [server.Emitter]: p points to the payload.
func (e *Emitter) Emit(ctx context.Context, p any, o []events.EmitOption) error {
	return untyped.Emit(ctx, (*server.Emitter[any])(e), p, o)
}

// Hooks are the [server.Hooks] of an event type without its types.
type Hooks struct {
	erased *hook.Untyped[server.Subscription]
}

// NewHooks makes them. It is compiled once for all event types, whose arguments and payloads are pointers.
//
//go:noinline
func NewHooks[PA, PP any](h *server.PointerHooks[PA, PP]) Hooks {
	return Hooks{hook.Erase(h.Match, h.Transform, h.OnSubscribe, h.OnUnsubscribe, h.Authorize)}
}

// A Check is a [server.Check] without its types. Its function is nil where the author gave none, which registering it
// refuses.
type Check struct{ ask feed.Ask }

// NewCheck makes a check of a method of c: method is Checker.CheckX, c may be nil.
func NewCheck[C, A, P any](c C, method func(c C, ctx context.Context, args A, cursor string) (events.Page[P], error)) *Check {
	if any(c) == nil {
		return &Check{}
	}
	return &Check{feed.Erase(func(ctx context.Context, args A, cursor string) (events.Page[P], error) {
		return method(c, ctx, args, cursor)
	})}
}

// Register registers an event type of a generated package, which describes it under its name: it is
// [server.Register] for a type without a check, which is nil then, [server.RegisterBoth], or [server.RegisterCheck], of
// which the emitter is nil.
func Register(s *server.Server, described *eventsimpl.Schemas, name string, c *Check, h Hooks, o []server.TypeOption) (*Emitter, error) {
	info := described.Describe(name)
	register := untyped.RegisterEmitter
	var ask feed.Ask
	if c != nil {
		ask, register = c.ask, untyped.RegisterBoth
		if info.Source == events.SourceCheck {
			register = untyped.RegisterCheck
		}
	}
	e, err := register(s, &info, h.erased, ask, o)
	if e == nil || err != nil {
		return nil, err
	}
	return (*Emitter)(e.(*server.Emitter[any])), nil
}
