// Package serverimpl supports the registrations and emitters that mcpe-gen generates. Only generated code calls it.
// Programs use the generated functions and package server.
package serverimpl

import (
	"context"
	"reflect"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// An Emitter is the underlying type of all generated emitters.
type Emitter server.Emitter[any]

// Emit is like the Emit method of [server.Emitter]. p points to the payload.
func (e *Emitter) Emit(ctx context.Context, p any, o []events.EmitOption) error {
	return untyped.Emit(ctx, (*server.Emitter[any])(e), p, o)
}

// Hooks is [server.Hooks] without type parameters.
type Hooks struct {
	erased *hook.Untyped[server.Subscription]
}

// NewHooks converts h to Hooks. It is compiled only once for all event types, because the type arguments are pointers.
//
//go:noinline
func NewHooks[PA, PP any](h *server.PointerHooks[PA, PP]) Hooks {
	return Hooks{hook.Erase(h.Match, h.Transform, h.PerPrincipal, h.OnSubscribe, h.OnUnsubscribe, h.Authorize)}
}

// A Check is a [server.Check] without type parameters. Its function is nil if the author did not provide one.
// Registering such a check is an error.
type Check struct{ ask feed.Ask }

// NewCheck returns a check that calls a method of c. method is the method expression Checker.CheckX. c may be nil or a
// nil function.
func NewCheck[C, A, P any](c C, method func(c C, ctx context.Context, args A, cursor string) (events.Page[P], error)) *Check {
	if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Func && v.IsNil() {
		return &Check{}
	}
	return &Check{feed.Erase(func(ctx context.Context, args A, cursor string) (events.Page[P], error) {
		return method(c, ctx, args, cursor)
	})}
}

// Register registers the named event type of a generated package. If c is nil, Register is like [server.Register]. If
// the source of the type is "check", it is like [server.RegisterCheck] and returns a nil emitter. Otherwise, it is like
// [server.RegisterBoth].
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
