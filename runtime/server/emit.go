package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// emit validates, encodes once and appends. p is a pointer to the payload.
func (et *eventType) emit(ctx context.Context, targets []string, p any, opts []events.EmitOption) error {
	fail := func(err error) error { return fmt.Errorf("emitting %s: %w", et.name, err) }
	if et.server.isClosed() {
		return fail(events.ErrClosed)
	}
	d := et.current()
	if d == nil {
		return fail(notFound("event"))
	}
	var o events.EmitOptions
	for _, opt := range opts {
		opt(&o)
	}
	e := store.Entry{EventID: o.ID}
	if e.EventID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fail(fmt.Errorf("generating eventId: %w", err))
		}
		e.EventID = id.String()
	} else if err := wire.CheckEventID(e.EventID); err != nil {
		return fail(err)
	}
	at := o.Timestamp
	if at.IsZero() {
		at = time.Now().UTC()
	}
	e.Timestamp = events.NewTime(at)
	if _, err := e.Timestamp.MarshalText(); err != nil {
		return fail(err)
	}
	var err error
	if e.Meta, err = encodeMeta(o.Meta); err != nil {
		return fail(err)
	}
	if e.Data, err = events.Encode(p); err != nil {
		return fail(fmt.Errorf("%w: %w", events.ErrInvalidPayload, err))
	}
	decoded, err := d.encodable(e.Data)
	if err != nil {
		return fail(err)
	}
	if d.webhooks() && len(e.Data)+len(e.Meta) > wire.MaxPayload {
		return fail(fmt.Errorf("%w: %d bytes with _meta, at most %d where webhook is offered", events.ErrTooLarge, len(e.Data)+len(e.Meta), wire.MaxPayload))
	}
	if targets != nil {
		if len(targets) == 0 {
			return nil
		}
		e.Targets = slices.Clone(targets)
	}
	if d.check != nil {
		et.origins.emitted(e.EventID)
	}
	if decoded != nil && len(d.rules) > 0 {
		et.topic.expect(e.Data, decoded)
		defer et.topic.forget(e.Data)
	}
	if _, err := et.topic.log.Append(ctx, e); err != nil {
		if d.check != nil {
			et.origins.forget(e.EventID)
		}
		return fail(err)
	}
	return nil
}

// encodeMeta encodes the author's _meta without the keys that are ours on the wire; nil for none.
func encodeMeta(meta map[string]any) (json.RawMessage, error) {
	own := make(map[string]any, len(meta))
	for k, v := range meta {
		if k != wire.MetaSubscriptionID && k != wire.MetaFingerprint {
			own[k] = v
		}
	}
	if len(own) == 0 {
		return nil, nil
	}
	b, err := events.Encode(own)
	if err != nil {
		return nil, fmt.Errorf("_meta: %w", err)
	}
	return bytes.Clone(b), nil
}
