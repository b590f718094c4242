// Package actor stores the name of the acting operator, and the key of the operator's call, in a context. It makes no
// compatibility promise.
package actor

import (
	"context"
	"strings"
)

// Nobody is the name used for an unnamed operator.
const Nobody = "operator"

// maxName is the maximum length of a name in bytes. It is limited because the name is stored with every attempt that an
// operator requests.
const maxName = 256

type (
	name struct{}
	key  struct{}
)

// With returns a copy of ctx that contains the name, truncated to maxName bytes.
func With(ctx context.Context, by string) context.Context {
	if len(by) > maxName {
		by = strings.ToValidUTF8(by[:maxName], "")
	}
	return context.WithValue(ctx, name{}, by)
}

// WithKey returns a copy of ctx that contains the key of a call.
func WithKey(ctx context.Context, call string) context.Context {
	return context.WithValue(ctx, key{}, call)
}

// Key returns the key in the context, or "" if the context has no key.
func Key(ctx context.Context) string {
	call, _ := ctx.Value(key{}).(string)
	return call
}

// Of returns the name in the context, or [Nobody] if the context has no name.
func Of(ctx context.Context) string {
	if by, _ := ctx.Value(name{}).(string); by != "" {
		return by
	}
	return Nobody
}
