// Package clientimpl supports the subscriptions that mcpe-gen generates. Only generated code calls it. Programs use
// the generated functions and package client.
package clientimpl

import (
	"context"
	"iter"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
)

// Subscribe is [client.Subscribe] without type parameters, so that generated functions stay small. name and fingerprint
// identify the event type, and args points to the arguments. The caller converts the result to a pointer to the
// generated subscription type, which has the same underlying type as [client.Subscription]. See EVOL-4.
func Subscribe(ctx context.Context, c *client.Client, name, fingerprint string, args any, o []client.SubscribeOption) (*client.Subscription, error) {
	s, err := untyped.Subscribe(ctx, c, name, fingerprint, args, o)
	if err != nil {
		return nil, err
	}
	return s.(*client.Subscription), nil
}

// Events implements the Events method of a generated subscription. E is a pointer to the events.Event of the event
// type.
//
//go:noinline
func Events[E any](s *client.Subscription) iter.Seq2[E, error] {
	return untyped.Seq[E](untyped.Iterate(s))
}

// Handle is [client.Handle] without type parameters. name and fingerprint identify the event type, and args points to
// the arguments. f is a func(context.Context, *events.Event[A, P]) error with the types of the event type.
func Handle(name, fingerprint string, args, f any, o []client.SubscribeOption) client.Binding {
	return untyped.Bind(name, fingerprint, args, f, o).(client.Binding)
}
