// Package untyped gives the packages below runtime/impl access to unexported parts of runtime/client and
// runtime/server. Only generated code calls the packages below runtime/impl. The packages client and server set the
// variables of this package in their init functions.
//
// A program with a thousand event types contains a thousand instances of each generic function and method, including
// their closures, and of each generic type's method table. To reduce the size of the binary, generic functions only
// call non-generic functions, which are compiled once.
package untyped

import (
	"context"
	"iter"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// An Iteration yields a subscription's events until yield returns false. The events are pointers of the same type as
// like.
type Iteration func(like any, yield func(ev any, err error) bool)

var (
	// Subscribe subscribes the *client.Client c. fingerprint is the fingerprint of the event type with the given name,
	// args points to its arguments, and options is a []client.SubscribeOption. The result is a *client.Subscription.
	Subscribe func(ctx context.Context, c any, name, fingerprint string, args, options any) (any, error)
	// Bind returns the client.Binding of a handler f, a func(context.Context, *events.Event[A, P]) error. The other
	// parameters are as for Subscribe.
	Bind func(name, fingerprint string, args, f, options any) any
	// Iterate returns the iteration of a *client.Subscription.
	Iterate func(subscription any) Iteration
)

// A Registration registers an event type with the *server.Server s. hooks is a *hook.Untyped[server.Subscription], ask
// is a feed.Ask or nil, and options is a []server.TypeOption. The returned emitter is a *server.Emitter[any], or nil if
// the event type does not have one.
type Registration func(s any, t *events.Info, hooks, ask, options any) (emitter any, err error)

var (
	// RegisterEmitter, RegisterCheck and RegisterBoth are the untyped forms of server.Register, server.RegisterCheck
	// and server.RegisterBoth.
	RegisterEmitter, RegisterCheck, RegisterBoth Registration
	// Emit emits an event with a *server.Emitter of any type. p points to the payload.
	Emit func(ctx context.Context, emitter, p any, o []events.EmitOption) error
)

// Seq returns an iterator over values of type E. E must be a pointer type, because the compiler generates one instance
// for all pointer types.
//
//go:noinline
func Seq[E any](iterate Iteration) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var like E
		iterate(like, func(ev any, err error) bool { return yield(ev.(E), err) })
	}
}
