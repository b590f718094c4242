package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// portAdapter implements [port.Inside] for carriers and adapters, which reach it through [port.Of]. Authors do not see
// it.
type portAdapter struct{ *Server }

func init() {
	port.Of = func(server any) *port.Port {
		if s, ok := server.(*Server); ok && s != nil {
			return s.port
		}
		return nil
	}
	port.Encode = func(emitter, payload any) (string, json.RawMessage, error) {
		et := emitter.(*Emitter[any]).et
		data, err := et.encode(payload)
		return et.name, data, err
	}
}

// The methods below implement [port.Inside].

func (s portAdapter) MCP() *mcp.Server { return s.mcp }

func (s portAdapter) Shared() bool { return s.isShared() }

func (s portAdapter) Logger() *slog.Logger { return s.options.Logger }

func (s portAdapter) MaxParams() int { return s.options.MaxParams }

func (s portAdapter) Authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time) {
	return s.authenticate(ctx, extra)
}

func (s portAdapter) Capabilities(stateless bool) json.RawMessage { return s.capabilities(stateless) }

func (s portAdapter) EncodePayload(event string, payload any) (json.RawMessage, error) {
	return s.encodePayload(event, payload)
}

func (s portAdapter) Heartbeat() time.Duration { return s.options.Heartbeat }

func (s portAdapter) RecheckInterval() time.Duration { return s.options.Reauthorize }

func (s portAdapter) Closing() <-chan struct{} { return s.closing }

func (s portAdapter) Types(ctx context.Context, principal string) ([]events.Info, error) {
	var all []events.Info
	for _, et := range s.eventTypes() {
		d := et.current()
		if d == nil {
			continue
		}
		ok, err := s.access.IsVisible(ctx, principal, et.name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, d.info)
		}
	}
	return all, nil
}

func (s portAdapter) MayFollow(ctx context.Context, principal, event string, arguments json.RawMessage) error {
	ctx = hook.WithPrincipal(ctx, principal)
	_, d, err := s.lookup(ctx, principal, event)
	if err != nil {
		return err
	}
	_, err = s.parseArguments(ctx, principal, d, arguments)
	return err
}

func (s portAdapter) Head(event string) string {
	et := s.eventType(event)
	if et == nil || et.topic == nil {
		return ""
	}
	d := et.current()
	if d == nil || d.check != nil {
		return ""
	}
	_, head := et.topic.Bounds()
	if cursor := et.topic.Cursor(&d.Type, head); cursor != nil {
		return *cursor
	}
	return ""
}
