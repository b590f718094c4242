// Package actor carries the name of the acting operator in a context. It makes no promise of compatibility.
package actor

import (
	"context"
	"strings"
)

// Nobody is the name of an operator without a name.
const Nobody = "operator"

// max bounds a name, in bytes, because it is stored with every attempt that an operator requests.
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
