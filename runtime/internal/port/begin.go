package port

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type beginKey struct{}

// WithBegin returns a context for a request that might start a session of the SDK. began is called with the session
// after initialize has succeeded and before the response is written.
func WithBegin(ctx context.Context, began func(*mcp.ServerSession)) context.Context {
	return context.WithValue(ctx, beginKey{}, began)
}

// Begin calls the function that [WithBegin] stored in ctx, if any.
func Begin(ctx context.Context, session mcp.Session) {
	began, _ := ctx.Value(beginKey{}).(func(*mcp.ServerSession))
	if ss, ok := session.(*mcp.ServerSession); ok && began != nil {
		began(ss)
	}
}
