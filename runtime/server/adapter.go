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

// inside is the view of the server that carriers and adapters get from [port.Of]. Authors do not see it.
type inside struct{ *Server }

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

func (s inside) MCP() *mcp.Server { return s.mcp }

func (s inside) Shared() bool { return s.shared() }

func (s inside) Logger() *slog.Logger { return s.options.Logger }

func (s inside) MaxParams() int { return s.options.MaxParams }

func (s inside) Authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time) {
	return s.authenticate(ctx, extra)
}

func (s inside) Capabilities(stateless bool) json.RawMessage { return s.capabilities(stateless) }

func (s inside) EncodePayload(event string, payload any) (json.RawMessage, error) {
	return s.encodePayload(event, payload)
}

func (s inside) Heartbeat() time.Duration { return s.options.Heartbeat }

func (s inside) Closing() <-chan struct{} { return s.closing }

func (s inside) Types(ctx context.Context, principal string) ([]events.Info, error) {
	var all []events.Info
	for _, et := range s.all() {
		d := et.current()
		if d == nil {
			continue
		}
		ok, err := s.visible(ctx, principal, et.name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, d.info)
		}
	}
	return all, nil
}

func (s inside) MayFollow(ctx context.Context, principal, event string, arguments json.RawMessage) error {
	ctx = hook.WithPrincipal(ctx, principal)
	_, d, err := s.lookup(ctx, principal, event)
	if err != nil {
		return err
	}
	_, err = s.accepted(ctx, principal, d, arguments)
	return err
}

func (s inside) Head(event string) string {
	et := s.registered(event)
	if et == nil || et.topic == nil {
		return ""
	}
	d := et.current()
	if d == nil || d.check != nil {
		return ""
	}
	_, head := et.topic.Bounds()
	var text string
	_ = json.Unmarshal(et.topic.Cursor(&d.Type, head), &text)
	return text
}
