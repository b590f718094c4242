// Package clientimpl supports the subscriptions that mcpe-gen generates. Only generated code calls it. Programs use
// the generated functions and package client.
package clientimpl

import (
	"context"
	"iter"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
)

// Subscribe is [client.Subscribe] without type parameters, which keeps generated functions small. name and fingerprint
// are those of the event type, and args points to its arguments. The caller converts the result to a pointer to the
// generated subscription, whose underlying type is that of [client.Subscription]. See EVOL-4.
func Subscribe(ctx context.Context, c *client.Client, name, fingerprint string, args any, o []client.SubscribeOption) (*client.Subscription, error) {
	s, err := untyped.Subscribe(ctx, c, name, fingerprint, args, o)
	if err != nil {
		return nil, err
	}
	return s.(*client.Subscription), nil
}

// Events implements the method Events of a generated subscription. E is a pointer to the events.Event of its event
// type.
//
//go:noinline
func Events[E any](s *client.Subscription) iter.Seq2[E, error] {
	return untyped.Seq[E](untyped.Iterate(s))
}

// Handle is [client.Handle] without type parameters. args points to the arguments of the event type with this name and
// fingerprint, and f is a func(context.Context, *events.Event[A, P]) error of its types.
func Handle(name, fingerprint string, args, f any, o []client.SubscribeOption) client.Binding {
	return untyped.Bind(name, fingerprint, args, f, o).(client.Binding)
}
