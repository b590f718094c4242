package server

import (
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// codeOf returns the address of a handler's code. All closures created by the same function literal have the same
// address.
func codeOf(h mcp.MethodHandler) uintptr { return reflect.ValueOf(h).Pointer() }

// addMiddleware adds one of this module's receiving middlewares. It stores the new handler's code address in s.own, or
// 0 if the server has other middleware.
func (s *Server) addMiddleware(m mcp.Middleware) {
	before := codeOf(port.ReceivingHandler(s.mcp))
	s.mcp.AddReceivingMiddleware(m)
	if before == codeOf(port.BareHandler()) || before == uintptr(s.own.Load()) {
		s.own.Store(uint64(codeOf(port.ReceivingHandler(s.mcp))))
	} else {
		s.own.Store(0) // the author's middleware stays below it
	}
}

func (s portAdapter) AddMiddleware(m mcp.Middleware) { s.addMiddleware(m) }

func (s portAdapter) Receiving() mcp.MethodHandler {
	h := port.ReceivingHandler(s.mcp)
	if codeOf(h) == uintptr(s.own.Load()) {
		return nil
	}
	return h
}
