package server

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// subscribe handles events/subscribe and checks the request in the order of ERR-2 (SUB-1 to SUB-8).
func (s *Server) subscribe(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodeSubscribeParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	if r.Principal == "" {
		return nil, events.Forbidden("")
	}
	ctx = hook.WithPrincipal(ctx, r.Principal)
	et, d, err := s.lookup(ctx, r.Principal, p.Name)
	if err != nil {
		return nil, err
	}
	if p.Delivery.Mode != wire.ModeWebhook || !d.Webhooks() {
		return nil, fault.UnsupportedMode(p.Delivery.Mode)
	}
	if err := et.Refuses(); err != nil {
		return nil, err
	}
	return s.parts.Subscribe(ctx, &part.Subscribe{Type: et, Definition: d, Params: &p, Request: r})
}

// unsubscribe handles events/unsubscribe. It requires only the principal and the subscription's key (SUB-9).
func (s *Server) unsubscribe(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodeUnsubscribeParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	if r.Principal == "" {
		return nil, events.Forbidden("")
	}
	canonical, err := wire.Canonical(p.Arguments)
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	ok, err := s.parts.Unsubscribe(ctx, wire.SubscriptionID(wire.ModeWebhook, r.Principal, p.Delivery.URL, p.Name, canonical))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.NotFound("subscription")
	}
	if r.Stateless {
		return json.RawMessage(`{"resultType":"` + wire.ResultComplete + `"}`), nil
	}
	return json.RawMessage(`{}`), nil
}
