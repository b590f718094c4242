package hook

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// Untyped are the hooks of an event type with arguments A and payloads P without these types: payloads are *P,
// arguments *A, and a hook is nil where the author gave none. S is what tells a hook its subscription.
type Untyped[S any] struct {
	Arguments, Payload reflect.Type // A and P

	Match         func(ctx context.Context, p, a any) bool
	Transform     func(ctx context.Context, p, a any) error
	OnSubscribe   func(ctx context.Context, sub S, a any) error
	OnUnsubscribe func(ctx context.Context, sub S, a any)
	Authorize     func(ctx context.Context, principal string, a any) error
}

// Erase makes them of those that the author gave. PA and PP are *A and *P: pointers have one shape to the compiler, so
// that it makes this function once for all event types.
//
//go:noinline
func Erase[PA, PP, S any](
	match func(ctx context.Context, p PP, a PA) bool,
	transform func(ctx context.Context, p PP, a PA) error,
	onSubscribe func(ctx context.Context, sub S, a PA) error,
	onUnsubscribe func(ctx context.Context, sub S, a PA),
	authorize func(ctx context.Context, principal string, a PA) error,
) *Untyped[S] {
	f := &Untyped[S]{Arguments: reflect.TypeFor[PA]().Elem(), Payload: reflect.TypeFor[PP]().Elem()}
	if match != nil {
		f.Match = func(ctx context.Context, p, a any) bool { return match(ctx, p.(PP), a.(PA)) }
	}
	if transform != nil {
		f.Transform = func(ctx context.Context, p, a any) error { return transform(ctx, p.(PP), a.(PA)) }
	}
	if onSubscribe != nil {
		f.OnSubscribe = func(ctx context.Context, sub S, a any) error { return onSubscribe(ctx, sub, a.(PA)) }
	}
	if onUnsubscribe != nil {
		f.OnUnsubscribe = func(ctx context.Context, sub S, a any) { onUnsubscribe(ctx, sub, a.(PA)) }
	}
	if authorize != nil {
		f.Authorize = func(ctx context.Context, principal string, a any) error { return authorize(ctx, principal, a.(PA)) }
	}
	return f
}

// DecodeArguments returns a fresh *A.
func (f *Untyped[S]) DecodeArguments(raw json.RawMessage) (any, error) {
	a := reflect.New(f.Arguments).Interface()
	return a, codec.Decode(raw, a)
}

// DecodePayload returns a fresh *P.
func (f *Untyped[S]) DecodePayload(raw json.RawMessage) (any, error) {
	p := reflect.New(f.Payload).Interface()
	return p, codec.Decode(raw, p)
}
