package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// KeySetPath is the path on the server's origin at which the handler returned by [Server.KeySet] must be served. See
// HOOK-10.
const KeySetPath = wire.PathKeySet

// KeySet returns a handler that serves the public keys for the server's webhook signatures as a JWK set. It responds
// with 404 if the server has no identity. See HOOK-10.
func (s *Server) KeySet() http.Handler {
	if s.webhooks == nil || s.options.Webhook.Identity == nil {
		return http.NotFoundHandler()
	}
	return s.options.Webhook.Identity
}

// Admin returns the interface for operators.
func (s *Server) Admin() operator.Admin { return s.admin }

func newAdmin(s *Server) *operate.Admin {
	return operate.New(operate.Options{Host: operateHost{s.access, s}, Processes: s.cluster, Webhooks: s.webhooks, Store: s.options.Store, Outbox: s.options.Outbox, Dialect: s.dialectFor(false),
		Now: s.now, Closing: s.closing, Log: &s.log})
}

// An operateHost adapts the server to [operate.Host].
type operateHost struct {
	*access.Gate
	s *Server
}

func (h operateHost) EventTypes() (all []operate.EventType) {
	for _, et := range h.s.eventTypes() {
		all = append(all, et)
	}
	return all
}

func (h operateHost) EventType(name string) operate.EventType {
	if et := h.s.eventType(name); et != nil {
		return et
	}
	return nil
}

func (h operateHost) Streams() (all []operate.Stream) {
	for _, st := range h.s.streams.All() {
		all = append(all, st)
	}
	return all
}

func (h operateHost) Stream(number uint64) operate.Stream {
	if st := h.s.streams.Stream(number); st != nil {
		return st
	}
	return nil
}

func (h operateHost) Pollers() (all []operate.Connection) {
	for _, l := range h.s.leases.All() {
		all = append(all, l)
	}
	return all
}

func (h operateHost) Poller(subscription string) operate.Connection {
	if l := h.s.leases.Of(subscription); l != nil {
		return l
	}
	return nil
}

func (h operateHost) Deciding() { h.s.leases.Deciding() }

func (h operateHost) ListChanged() { h.s.notifyListChanged() }

// Describe implements [operate.EventType].
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

// EmitJSON implements [operate.EventType].
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
