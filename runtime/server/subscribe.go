package server

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
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
	q := &subscriber.Request{Type: et, RawURL: p.Delivery.URL, Dialect: s.dialectFor(r.DeclaresExtension),
		Replay: topic.ReplayOf(p.Cursor, p.MaxAgeMs), Head: et.Head(), TTLMs: p.TTLMs, Forever: p.NoExpiry, Reply: r.AfterReply,
		Admitted: s.webhooks.Position()}
	if s.options.Webhook.EndWithToken {
		q.Expires = r.Expires
	}
	if err := s.webhooks.Read(ctx, q, d, &p); err != nil {
		return nil, err
	}
	if err := s.access.Admit(ctx, r.Principal, q.Args); err != nil {
		return nil, err
	}
	if q.Head, err = et.topic.Now(ctx, d.Kernel(), q.Head, q.Replay); err != nil {
		return nil, err
	}
	q.Sub = eventtype.Identify(wire.ModeWebhook, r.Principal, q.RawURL, q.Args)
	res, err := s.webhooks.Subscribe(ctx, q)
	if err != nil {
		return nil, err
	}
	if r.Stateless {
		res.ResultType = wire.ResultComplete
	}
	return marshalResult(res)
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
	done, idempotent := false, false
	if w := s.webhooks; w != nil {
		id := wire.SubscriptionID(wire.ModeWebhook, r.Principal, p.Delivery.URL, p.Name, canonical)
		if done, err = w.Remove(ctx, id); err != nil {
			return nil, err
		}
		idempotent = s.options.Webhook.IdempotentUnsubscribe
	}
	if !done && !idempotent {
		return nil, fault.NotFound("subscription")
	}
	if r.Stateless {
		return json.RawMessage(`{"resultType":"` + wire.ResultComplete + `"}`), nil
	}
	return json.RawMessage(`{}`), nil
}
