package hook

import "context"

type principalKey struct{}

// Principal returns the principal that a check or hook runs for, "" for nobody.
func Principal(ctx context.Context) string {
	p, _ := ctx.Value(principalKey{}).(string)
	return p
}

// WithPrincipal makes the principal that of the context. "" also takes away another principal: a shared check is asked within somebody's poll.
func WithPrincipal(ctx context.Context, principal string) context.Context {
	if principal == Principal(ctx) {
		return ctx
	}
	return context.WithValue(ctx, principalKey{}, principal)
}

// Impersonal is a context without values: what runs under it cannot tell whom it runs for. It ends
// with the context that it wraps.
type Impersonal struct{ context.Context }

// Value knows nothing: neither the principal nor what the SDK or a middleware left for a request.
func (Impersonal) Value(any) any { return nil }

// AfterFunc lets the context package derive from c without a goroutine of its own.
func (c Impersonal) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }
