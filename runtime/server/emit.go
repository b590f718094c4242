package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
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
		return fail(fault.NotFound("event"))
	}
	var o events.EmitOptions
	for _, opt := range opts {
		opt(&o)
	}
	e := store.Entry{EventID: o.ID}
	generated := o.ID == ""
	if generated {
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
	first := d.check != nil && et.feeds.Emitted(e.EventID)
	if err := et.append(ctx, e, decoded, generated); err != nil {
		if first && !errors.Is(err, events.ErrIDReused) { // then an earlier one stands
			et.feeds.NotEmitted(e.EventID)
		}
		return fail(err)
	}
	return nil
}

// emitTo is emit for these subscriptions only, where no ids are nobody.
func (et *eventType) emitTo(ctx context.Context, ids []string, p any, opts []events.EmitOption) error {
	if ids == nil {
		ids = []string{}
	}
	return et.emit(ctx, ids, p, opts)
}

// append appends what an author emitted, unless it repeats what the log holds (OCC-5): that is
// counted, and an error only where the data differs. Entries of other schemas do not count. A
// generated id cannot have been used before.
func (et *eventType) append(ctx context.Context, e store.Entry, decoded any, generated bool) error {
	fresh, err := et.topic.Append(ctx, e, decoded, !generated)
	if err == nil && !fresh {
		et.server.repeats.Add(ctx, 1, metric.WithAttributes(attribute.String("mcpe.event", et.name)))
	}
	return err
}

// repeatCounter counts the emits that repeated a retained occurrence (OCC-5).
func repeatCounter(o *Options) (metric.Int64Counter, error) {
	return o.meter().Int64Counter("mcp.events.emit.repeats",
		metric.WithDescription("Emits under an eventId that the log retains with the same data, which were not appended again."))
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
