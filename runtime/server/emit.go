package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// emit validates, encodes and appends the payload to which p points.
func (et *eventType) emit(ctx context.Context, p any, opts []events.EmitOption) error {
	fail := func(err error) error {
		et.countEmit(ctx, false, err)
		return fmt.Errorf("emitting %s: %w", et.name, err)
	}
	o, err := et.newOccurrence(ctx, p, opts)
	if err != nil {
		return fail(err)
	}
	if engine.ForNobody(&o.entry) { // SRV-2
		return nil
	}
	first := o.checked && et.feeds.Emitted(o.entry.EventID)
	fresh, err := et.appendNew(ctx, o)
	if err != nil {
		if first && !errors.Is(err, events.ErrIDReused) { // if it was reused, the earlier occurrence remains
			et.feeds.NotEmitted(o.entry.EventID)
		}
		return fail(err)
	}
	et.countEmit(ctx, fresh, nil)
	return nil
}

// JSONEmitter returns a function that emits payloads in JSON, such as those of a program in another language. The function
// validates the JSON before it decodes it into the payload type of e: a required member that is missing is an error. Members
// that the type does not have are dropped. The function returns the same errors as Emit; the text of an
// events.ErrInvalidPayload names the members. E is inferred, as for [Prepare]. See OCC-4.
func JSONEmitter[P any, T AnyEmitter, E interface {
	*T
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}](e E) func(ctx context.Context, payload []byte, o ...events.EmitOption) error {
	return func(ctx context.Context, payload []byte, o ...events.EmitOption) error {
		if e == nil {
			return errNoEmitter
		}
		et := Emitter[P](*e).et
		var p P
		if err := et.decodePayload(bytes.TrimSpace(payload), &p); err != nil {
			et.countEmit(ctx, false, err)
			return fmt.Errorf("emitting %s: %w", et.name, err)
		}
		return et.emit(ctx, &p, o)
	}
}

// decodePayload validates JSON and decodes it into the payload to which p points.
func (et *eventType) decodePayload(data []byte, p any) error {
	d := et.current()
	if d == nil {
		return fault.NotFound("event")
	}
	if err := d.checkData(data); err != nil {
		return err
	}
	if err := codec.Decode(data, p); err != nil {
		return fmt.Errorf("%w: %w", events.ErrInvalidPayload, err)
	}
	return nil
}

// An outgoing is a validated and encoded occurrence.
type outgoing struct {
	entry     store.Entry
	generated bool // the eventId was generated
	checked   bool // the type also has a check
}

// newOccurrence validates and encodes the payload to which p points.
func (et *eventType) newOccurrence(ctx context.Context, p any, opts []events.EmitOption) (x outgoing, err error) {
	if et.server.isClosed() {
		return x, events.ErrClosed
	}
	d := et.current()
	if d == nil {
		return x, fault.NotFound("event")
	}
	var o events.EmitOptions
	for _, opt := range opts {
		opt(&o)
	}
	e := store.Entry{EventID: o.ID, Targets: slices.Clone(o.Targets)}
	x.generated, x.checked = o.ID == "", d.check != nil
	if x.generated {
		id, err := uuid.NewV7()
		if err != nil {
			return x, fmt.Errorf("generating eventId: %w", err)
		}
		e.EventID = id.String()
	} else if err := wire.CheckEventID(e.EventID); err != nil {
		return x, err
	}
	at := o.Timestamp
	if at.IsZero() {
		et.server.parts.Refresh(ctx)
		at = et.server.now()
	}
	e.Timestamp = events.NewTime(at)
	if _, err := e.Timestamp.MarshalText(); err != nil {
		return x, err
	}
	if e.Meta, err = encodeMeta(o.Meta); err != nil {
		return x, err
	}
	if e.Data, err = codec.Encode(p); err != nil {
		return x, fmt.Errorf("%w: %w", events.ErrInvalidPayload, err)
	}
	if err := d.checkData(e.Data); err != nil {
		return x, err
	}
	fits := func(meta json.RawMessage) bool { return !d.Webhooks() || len(e.Data)+len(meta) <= wire.MaxPayload }
	if !fits(e.Meta) {
		return x, tooLarge(len(e.Data) + len(e.Meta))
	}
	if trace := et.server.options.TraceContext; trace != nil {
		traceParent, traceState := trace(ctx)
		if traced, err := encodeMeta(withTrace(o.Meta, traceParent, traceState)); err == nil && fits(traced) {
			e.Meta = traced
		}
	}
	x.entry = e
	return x, nil
}

func tooLarge(n int) error {
	return fmt.Errorf("%w: %d bytes with _meta, at most %d where webhook is offered", events.ErrTooLarge, n, wire.MaxPayload)
}

// appendNew appends an emitted occurrence unless the log already contains its eventId (OCC-5). If the log contains it,
// fresh is false, and err is set only if the data differs. Entries written with other schemas are ignored. The log is
// not searched for a generated id.
func (et *eventType) appendNew(ctx context.Context, o outgoing) (fresh bool, err error) {
	fresh, err = et.topic.Append(ctx, o.entry, !o.generated)
	if errors.Is(err, store.ErrUncertain) {
		return true, et.retryAppend(ctx, o, err)
	}
	return fresh, err
}

// Pauses between retries of an append with an unknown result.
const (
	againPause    = 20 * time.Millisecond
	maxAgainPause = time.Second
)

// retryAppend retries an append with an unknown result. The eventId prevents a duplicate. The result remains unknown
// only if the context ends or the server shuts down first (REP-22).
func (et *eventType) retryAppend(ctx context.Context, o outgoing, err error) error {
	for pause := againPause; ; pause = min(2*pause, maxAgainPause) {
		select {
		case <-ctx.Done():
			return &events.UncertainError{EventID: o.entry.EventID, Err: errors.Join(err, ctx.Err())}
		case <-et.server.closing:
			return &events.UncertainError{EventID: o.entry.EventID, Err: err}
		case <-time.After(pause):
		}
		_, again := et.topic.Append(ctx, o.entry, true)
		switch {
		case again == nil || errors.Is(again, events.ErrIDReused):
			return again
		case errors.Is(again, store.ErrClosed):
			return &events.UncertainError{EventID: o.entry.EventID, Err: err}
		}
	}
}

// withTrace returns the author's _meta with a W3C trace context added. Values set by the author take precedence.
func withTrace(meta map[string]any, traceParent, traceState string) map[string]any {
	if _, ok := meta[wire.MetaTraceParent]; ok || traceParent == "" {
		return meta
	}
	traced := map[string]any{wire.MetaTraceParent: traceParent}
	if traceState != "" {
		traced[wire.MetaTraceState] = traceState
	}
	maps.Copy(traced, meta)
	return traced
}

// encodeMeta encodes the author's _meta without the keys that the protocol reserves. It returns nil if no keys remain.
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
	b, err := codec.Encode(own)
	if err != nil {
		return nil, fmt.Errorf("_meta: %w", err)
	}
	return bytes.Clone(b), nil
}
