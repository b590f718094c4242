// Package actor stores the name of the acting operator in a context. It makes no compatibility promise.
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

type key struct{}

// With returns a copy of ctx that contains the name, truncated to maxName bytes.
func With(ctx context.Context, name string) context.Context {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	return context.WithValue(ctx, key{}, name)
}

// Of returns the name in the context, or [Nobody] if the context has no name.
func Of(ctx context.Context) string {
	if name, _ := ctx.Value(key{}).(string); name != "" {
		return name
	}
	return Nobody
}
