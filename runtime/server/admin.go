package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// KeySetPath is the path on the server's origin at which the handler returned by [Server.KeySet] must be served. See
// HOOK-10.
const KeySetPath = wire.PathKeySet

// KeySet returns a handler that serves the public keys for the server's webhook signatures as a JWK set. It responds
// with 404 if the server has no identity. See HOOK-10.
func (s *Server) KeySet() http.Handler { return s.parts.KeySet() }

// Admin returns the interface for operators, or nil without Options.Operators.
func (s *Server) Admin() operator.Admin { return s.parts.Admin() }

// Describe implements [part.EventType].
func (et *eventType) Describe(schemas bool) (i operator.EventTypeInfo, ok bool) {
	d := et.current()
	if d == nil {
		return i, false
	}
	i.EventType = operator.EventType{Name: et.name, Description: d.info.Description, Delivery: d.deliveryModes(true, "anybody"), Replay: !d.info.NoReplay}
	et.mu.Lock()
	if et.terminated != nil {
		i.Terminated = &et.terminated.Termination
	}
	et.mu.Unlock()
	if schemas {
		i.InputSchema, i.PayloadSchema = d.inputSchema.JSON(), d.payloadSchema.JSON()
	}
	return i, true
}

// EmitJSON implements [part.EventType].
func (et *eventType) EmitJSON(ctx context.Context, data json.RawMessage, o ...events.EmitOption) error {
	return et.emit(ctx, &data, o)
}

func (et *eventType) Close(c *eventtype.Closing) {
	et.mu.Lock()
	defer et.mu.Unlock()
	et.terminated = c
}

// Refuses returns the error that an operator closed the type with, or nil while the type is open.
func (et *eventType) Refuses() *events.Error {
	et.mu.Lock()
	defer et.mu.Unlock()
	if et.terminated == nil {
		return nil
	}
	return et.terminated.Err
}
