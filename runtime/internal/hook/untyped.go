package hook

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// Untyped contains the hooks of an event type whose argument type A and payload type P are erased. Payloads have type
// *P and arguments have type *A. A hook is nil if the author did not set it. The type parameter S is the type of the
// subscription that is passed to hooks.
type Untyped[S any] struct {
	Arguments, Payload reflect.Type // A and P

	Match         func(ctx context.Context, p, a any) bool
	Transform     func(ctx context.Context, p, a any) error
	PerPrincipal  func(ctx context.Context, principal string, p, a any) (any, error) // nil if the author's hook returned nil
	OnSubscribe   func(ctx context.Context, sub S, a any) error
	OnUnsubscribe func(ctx context.Context, sub S, a any)
	Authorize     func(ctx context.Context, principal string, a any) error
}

// Erase converts the author's hooks to an Untyped. The type parameters PA and PP are *A and *P. Because all pointers
// have the same GC shape, the compiler compiles this function only once for all event types.
//
//go:noinline
func Erase[PA, PP, S any](
	match func(ctx context.Context, p PP, a PA) bool,
	transform func(ctx context.Context, p PP, a PA) error,
	perPrincipal func(ctx context.Context, principal string, p PP, a PA) (PP, error),
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
	if perPrincipal != nil {
		f.PerPrincipal = func(ctx context.Context, principal string, p, a any) (any, error) {
			var none PP
			if seen, err := perPrincipal(ctx, principal, p.(PP), a.(PA)); err != nil || any(seen) != any(none) {
				return seen, err
			}
			return nil, nil
		}
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

// DecodeArguments decodes raw into a new *A.
func (f *Untyped[S]) DecodeArguments(raw json.RawMessage) (any, error) {
	a := reflect.New(f.Arguments).Interface()
	return a, codec.Decode(raw, a)
}

// DecodePayload decodes raw into a new *P.
func (f *Untyped[S]) DecodePayload(raw json.RawMessage) (any, error) {
	p := reflect.New(f.Payload).Interface()
	return p, codec.Decode(raw, p)
}
