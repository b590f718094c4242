package hook

import "context"

type principalKey struct{}

// Principal returns the principal for which a check or hook is called, or "" if ctx has no principal.
func Principal(ctx context.Context) string {
	p, _ := ctx.Value(principalKey{}).(string)
	return p
}

// WithPrincipal returns a context with the principal. An empty principal hides the principal of ctx, because a shared
// check can be called during a poll by each of its callers.
func WithPrincipal(ctx context.Context, principal string) context.Context {
	if principal == Principal(ctx) {
		return ctx
	}
	return context.WithValue(ctx, principalKey{}, principal)
}

// Impersonal is a context without values, so code that is called with it cannot access the principal. It ends when the
// wrapped context ends.
type Impersonal struct{ context.Context }

// Value returns nil for every key. It therefore hides the principal and the values set by the SDK and middleware.
func (Impersonal) Value(any) any { return nil }

// AfterFunc calls [context.AfterFunc] with the wrapped context, so deriving contexts from c does not require a
// goroutine.
func (c Impersonal) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }
