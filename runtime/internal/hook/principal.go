package hook

import "context"

type principalKey struct{}

// Principal returns the principal that a check or hook runs for, "" for none.
func Principal(ctx context.Context) string {
	p, _ := ctx.Value(principalKey{}).(string)
	return p
}

// WithPrincipal sets the context's principal. "" removes another principal: a shared check runs within some caller's
// poll.
func WithPrincipal(ctx context.Context, principal string) context.Context {
	if principal == Principal(ctx) {
		return ctx
	}
	return context.WithValue(ctx, principalKey{}, principal)
}

// Impersonal is a context without values, so that code that runs with it cannot learn for whom it runs. It ends with
// the context that it wraps.
type Impersonal struct{ context.Context }

// Value returns nil for every key: it hides the principal and the values of the SDK and of middleware.
func (Impersonal) Value(any) any { return nil }

// AfterFunc lets the context package derive contexts from c without a goroutine.
func (c Impersonal) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }
