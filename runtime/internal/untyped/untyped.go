// Package untyped gives the packages of runtime/impl, which only generated code calls, access to unexported parts of
// runtime/client and runtime/server. Both packages set their variables here in their init functions.
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

// An Iteration yields a subscription's events until yield returns false, as pointers of like's type.
type Iteration func(like any, yield func(ev any, err error) bool)

var (
	// Subscribe subscribes the *client.Client c. fingerprint is the fingerprint of the event type with this name, args
	// points to its arguments, options are []client.SubscribeOption. The result is a *client.Subscription.
	Subscribe func(ctx context.Context, c any, name, fingerprint string, args, options any) (any, error)
	// Bind returns the client.Binding of a handler f, a func(context.Context, *events.Event[A, P]) error. The other
	// parameters are as for Subscribe.
	Bind func(name, fingerprint string, args, f, options any) any
	// Iterate returns the iteration of a *client.Subscription.
	Iterate func(subscription any) Iteration
)

// A Registration registers an event type with the *server.Server s. hooks are a *hook.Untyped[server.Subscription], ask
// is a feed.Ask or nil, options are []server.TypeOption. The emitter is a *server.Emitter[any], or nil if the event
// type has none.
type Registration func(s any, t *events.Info, hooks, ask, options any) (emitter any, err error)

var (
	// RegisterEmitter, RegisterCheck and RegisterBoth are server.Register, RegisterCheck and RegisterBoth.
	RegisterEmitter, RegisterCheck, RegisterBoth Registration
	// Emit emits with a *server.Emitter of any type; p points to the payload.
	Emit func(ctx context.Context, emitter, p any, o []events.EmitOption) error
)

// Seq returns an iterator over values E, which are pointers: all pointer types share one shape in the compiler.
//
//go:noinline
func Seq[E any](iterate Iteration) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var like E
		iterate(like, func(ev any, err error) bool { return yield(ev.(E), err) })
	}
}
