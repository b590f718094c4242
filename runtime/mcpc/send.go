package mcpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// messageContent converts a message to the content of a tool result (MCPC-WIRE-1).
func messageContent(m task.Message) ([]mcp.Content, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	b, err := m.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	return []mcp.Content{&mcp.TextContent{Text: string(b)}}, nil
}

// newCallback returns a JSON-RPC response that contains a message.
func newCallback(text []mcp.Content) (json.RawMessage, error) {
	result, err := json.Marshal(&mcp.CallToolResult{Content: text})
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      string          `json:"id"`
		Result  json.RawMessage `json:"result"`
	}{"2.0", wire.MCPCCallback, result})
}

// Pauses between attempts to send to a busy peer.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// deliver sends a callback as soon as the peer accepts it. If check is not nil, deliver calls it before each attempt and
// returns its error.
func (a *Adapter) deliver(ctx context.Context, connection string, text []mcp.Content, check func() error) error {
	raw, err := newCallback(text)
	if err != nil {
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		if a.es.Send(connection, port.Message{Raw: raw}) {
			return nil
		}
		if !a.es.Reachable(connection) {
			return ErrUnreachable
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// SendEvent sends a payload of an event type as a server event to a session. If the session is slow, SendEvent waits
// until ctx ends. E is a pointer to a server.Emitter or to the emitter of a generated package. It cannot be a wrapper,
// because SendEvent does not call Emit. SendEvent runs no hooks and removes private members. It returns the same errors
// as Emit for an invalid payload, and [ErrUnreachable] if the session has ended or uses HTTP, where clients subscribe
// to the event type instead. See MCPC-SRV-4, OCC-7.
func SendEvent[P any, T server.AnyEmitter, E interface {
	*T
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}](ctx context.Context, a *Adapter, to Session, e E, p P) error {
	if e == nil {
		return errors.New("mcpc: the emitter is nil")
	}
	emitter := server.Emitter[any](*e)
	event, data, err := port.Encode(&emitter, &p)
	if err != nil {
		return fmt.Errorf("mcpc: %w", err)
	}
	return a.sendEvent(ctx, to, event, data)
}

// SendEventNamed is like [SendEvent], but takes the name of the event type instead of an emitter. Use it for types that
// have a check but no emitter. It returns events.ErrInvalidPayload if P is not the payload type of the event type.
func SendEventNamed[P any](ctx context.Context, a *Adapter, to Session, event string, p P) error {
	data, err := a.es.EncodePayload(event, &p)
	if err != nil {
		return fmt.Errorf("mcpc: %w", err)
	}
	return a.sendEvent(ctx, to, event, data)
}

func (a *Adapter) sendEvent(ctx context.Context, to Session, event string, data json.RawMessage) error {
	a.mu.Lock()
	p := a.peers[to.key]
	reachable := p != nil && p.connection != "" && p.aware
	a.mu.Unlock()
	if !reachable {
		return fmt.Errorf("mcpc: sending %s: %w", event, ErrUnreachable)
	}
	if err := a.serverEvent(ctx, p, to.ID, event, data, nil); err != nil {
		return fmt.Errorf("mcpc: sending %s: %w", event, err)
	}
	return nil
}

func (a *Adapter) serverEvent(ctx context.Context, p *peer, session, event string, data json.RawMessage, check func() error) error {
	text, err := messageContent(task.Message{Type: wire.MCPCServerEvent, Event: event, SessionID: session, Result: data})
	if err != nil {
		return err
	}
	return a.deliver(ctx, p.connection, text, check)
}
