package server

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A Notification is one that a peer sent and that the SDK knows nothing of. For adapters and
// carriers.
type Notification = wire.Notification

// OnNotification has f called for every notification of the method, until stop is called. f must
// not block; ctx ends when the peer's connection or request does. For adapters.
func (s *Server) OnNotification(method string, f func(ctx context.Context, n Notification)) (stop func()) {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notified == nil {
		h.notified = map[string]map[int]func(context.Context, Notification){}
	}
	if h.notified[method] == nil {
		h.notified[method] = map[int]func(context.Context, Notification){}
	}
	h.lastID++
	id := h.lastID
	h.notified[method][id] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.notified[method], id)
	}
}

// Awaits reports whether an adapter wants notifications of the method. For carriers.
func (s *Server) Awaits(method string) bool {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.notified[method]) > 0
}

// Notified hands a notification to the adapters that want it. For carriers.
func (s *Server) Notified(ctx context.Context, n Notification) {
	h := &s.adapters.hub
	h.mu.Lock()
	var tell []func(context.Context, Notification)
	for _, f := range h.notified[n.Method] {
		tell = append(tell, f)
	}
	h.mu.Unlock()
	for _, f := range tell {
		f(ctx, n)
	}
}

// AdvertiseTopLevel puts a value below capabilities itself and, mirrored, below
// capabilities.experimental, which is all that the SDK's clients keep (CONV-1). For adapters.
func (s *Server) AdvertiseTopLevel(name string, value any) {
	s.adapters.mu.Lock()
	if s.adapters.topLevel == nil {
		s.adapters.topLevel = map[string]any{}
	}
	s.adapters.topLevel[name] = value
	s.adapters.mu.Unlock()
	s.Advertise(name, func(*mcp.Implementation) any { return value })
}

// topLevel is what AdvertiseTopLevel was given, as JSON by name.
func (s *Server) topLevel() (map[string]json.RawMessage, error) {
	s.adapters.mu.Lock()
	defer s.adapters.mu.Unlock()
	members := map[string]json.RawMessage{}
	for name, v := range s.adapters.topLevel {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		members[name] = b
	}
	return members, nil
}

// MCP is the SDK's server that this one was made for. For adapters.
func (s *Server) MCP() *mcp.Server { return s.mcp }

// Logger is the server's, for what never goes on the wire. For adapters.
func (s *Server) Logger() *slog.Logger { return s.options.Logger }

// AsPrincipal returns a context whose [PrincipalOf] is the principal. For adapters.
func (s *Server) AsPrincipal(ctx context.Context, principal string) context.Context {
	return hook.WithPrincipal(ctx, principal)
}
