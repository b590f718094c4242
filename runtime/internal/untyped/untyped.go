// Package untyped lets the packages of runtime/impl, which only generated code calls, reach what runtime/client and
// runtime/server do not export. Each of the two sets its variables here when it is initialized.
//
// A package of a thousand event types has a thousand instances of each generic function and method, of each closure in
// them, and of the method table of each generic type. So functions with type parameters only call functions without
// them, which are compiled once.
package untyped

import (
	"context"
	"iter"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// An Iteration yields what a subscription receives until yield returns false, as pointers of the type of like.
type Iteration func(like any, yield func(ev any, err error) bool)

var (
	// Subscribe subscribes the *client.Client c: fingerprint is that of the event type with this name, args points to
	// its arguments, options are []client.SubscribeOption, and the result is a *client.Subscription.
	Subscribe func(ctx context.Context, c any, name, fingerprint string, args, options any) (any, error)
	// Bind is the client.Binding of a handler f, a func(context.Context, *events.Event[A, P]) error; the rest is as for
	// Subscribe.
	Bind func(name, fingerprint string, args, f, options any) any
	// Iterate is the iteration of a *client.Subscription.
	Iterate func(subscription any) Iteration
)

// A Registration registers an event type with the *server.Server s: hooks are a *hook.Untyped[server.Subscription],
// ask is a feed.Ask, nil for none, options are []server.TypeOption. The emitter is a *server.Emitter[any], or nil
// where the event type has none.
type Registration func(s any, t *events.Info, hooks, ask, options any) (emitter any, err error)

var (
	// RegisterEmitter, RegisterCheck and RegisterBoth are server.Register, RegisterCheck and RegisterBoth.
	RegisterEmitter, RegisterCheck, RegisterBoth Registration
	// Emit emits by a *server.Emitter of any type; p points to the payload.
	Emit func(ctx context.Context, emitter, p any, o []events.EmitOption) error
)

// Seq is an iteration over values E, which are pointers: pointers share one shape to the compiler.
//
//go:noinline
func Seq[E any](iterate Iteration) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var like E
		iterate(like, func(ev any, err error) bool { return yield(ev.(E), err) })
	}
}
