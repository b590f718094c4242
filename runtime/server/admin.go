package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// KeySetPath is the path at which to serve the handler of [Server.KeySet] on the server's origin. See HOOK-10.
const KeySetPath = wire.PathKeySet

// KeySet returns a handler that serves the public keys of the server's webhook signatures as a JWK set. Without an
// identity it answers 404. See HOOK-10.
func (s *Server) KeySet() http.Handler {
	if s.webhooks == nil || s.options.Webhook.Identity == nil {
		return http.NotFoundHandler()
	}
	return s.options.Webhook.Identity
}

// Admin returns the interface for operators.
func (s *Server) Admin() operator.Admin { return s.admin }

func newAdmin(s *Server) *operate.Admin {
	return operate.New(operate.Options{Host: operated{s}, Processes: s.cluster, Webhooks: s.webhooks, Store: s.options.Store, Outbox: s.options.Outbox, Dialect: s.dialect(false),
		Now: s.now, Closing: s.closing, Log: &s.log})
}

// An operated adapts the server to [operate.Host].
type operated struct{ s *Server }

func (h operated) EventTypes() (all []operate.EventType) {
	for _, et := range h.s.all() {
		all = append(all, et)
	}
	return all
}

func (h operated) EventType(name string) operate.EventType {
	if et := h.s.registered(name); et != nil {
		return et
	}
	return nil
}

func (h operated) Streams() (all []operate.Stream) {
	for _, st := range h.s.streams.All() {
		all = append(all, st)
	}
	return all
}

func (h operated) Stream(number uint64) operate.Stream {
	if st := h.s.streams.Stream(number); st != nil {
		return st
	}
	return nil
}

func (h operated) Pollers() (all []operate.Connection) {
	for _, l := range h.s.leases.All() {
		all = append(all, l)
	}
	return all
}

func (h operated) Poller(subscription string) operate.Connection {
	if l := h.s.leases.Of(subscription); l != nil {
		return l
	}
	return nil
}

func (h operated) Visible(ctx context.Context, principal, event string) (bool, error) {
	return h.s.visible(ctx, principal, event)
}

func (h operated) Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error {
	return h.s.refused(ctx, principal, a)
}

func (h operated) Deciding() { h.s.leases.Deciding() }

func (h operated) ListChanged() { h.s.notifyListChanged() }

// Describe and Close implement [operate.EventType], together with the methods of [eventtype.Type].
func (et *eventType) Describe(schemas bool) (i operator.EventTypeInfo, ok bool) {
	d := et.current()
	if d == nil {
		return i, false
	}
	i.EventType = operator.EventType{Name: et.name, Description: d.info.Description, Delivery: d.delivery(true, "anybody"), Replay: !d.info.NoReplay}
	if schemas {
		i.InputSchema, i.PayloadSchema = d.inputSchema.JSON(), d.payloadSchema.JSON()
	}
	return i, true
}

// EmitJSON implements [operate.EventType].
func (et *eventType) EmitJSON(ctx context.Context, data json.RawMessage, o ...events.EmitOption) error {
	return et.emit(ctx, &data, o)
}

func (et *eventType) Close(e *events.Error) {
	et.mu.Lock()
	defer et.mu.Unlock()
	et.terminated = e
}

// Refuses returns the error with which an operator closed the type, or nil while it is open.
func (et *eventType) Refuses() *events.Error {
	et.mu.Lock()
	defer et.mu.Unlock()
	return et.terminated
}
