// Package actor puts the name of the operator who asks for something into a context. It makes no promise of
// compatibility.
package actor

import (
	"context"
	"strings"
)

// Nobody is the name of an operator without one.
const Nobody = "operator"

// max bounds a name, in bytes: it is kept with every attempt that was asked for.
const max = 256

type key struct{}

// With returns a context that carries the name.
func With(ctx context.Context, name string) context.Context {
	if len(name) > max {
		name = strings.ToValidUTF8(name[:max], "")
	}
	return context.WithValue(ctx, key{}, name)
}

// Of returns the name that the context carries, or [Nobody].
func Of(ctx context.Context) string {
	if name, _ := ctx.Value(key{}).(string); name != "" {
		return name
	}
	return Nobody
}
