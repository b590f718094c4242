package port

import (
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ReceivingHandler returns the handler of srv, wrapped in all its receiving middleware. The SDK exposes the handler
// only to middleware, so ReceivingHandler adds a middleware that returns it unchanged.
func ReceivingHandler(srv *mcp.Server) (h mcp.MethodHandler) {
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		h = next
		return next
	})
	return h
}

// BareHandler returns the handler of a server without middleware. It serves the server of the request's session.
var BareHandler = sync.OnceValue(func() mcp.MethodHandler {
	return ReceivingHandler(mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "0"}, nil))
})
