package subscriber

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A beginning describes how a subscription becomes live. Its zero value describes the restoration of a stored record.
type beginning struct {
	// request is the request that has created the record, or nil. The hooks have accepted it.
	request *Request
	// answered is the endpoint's response time to its challenge, or 0 without a challenge.
	answered time.Duration
	// For a replay of a check, earlier is the life that the new one replaces, and reader is the new life's reader.
	earlier *Live
	reader  boundReader

	// begin sets the following fields. truncated reports whether the check was unable to continue from the cursor.
	truncated bool
	live      *Live
}

// begin makes the subscription of a record live. No other function does. It first calls the hooks for a record that was
// stored earlier or by another process. The caller must hold the key.
func (w *Subscriptions) begin(ctx context.Context, p *ownedShard, r *store.Subscription, b *beginning) error {
	var a eventtype.Arguments
	switch {
	case b.request != nil:
		a = b.request.Args
	case b.reader != nil:
		a = b.reader.Arguments()
	default:
		var accepted bool
		var err error
		if a, accepted, err = w.acceptStored(ctx, p, r); !accepted {
			return err
		}
	}
	h, err := w.start(ctx, p, a, *r, b)
	if err != nil {
		if b.request == nil && b.reader == nil {
			w.host.Release(identityOf(r), a)
		}
		return err
	}
	// Apply what operators and definitions have changed since the record was read.
	if e := cmp.Or(p.endReason(r), w.incompatible(h)); e != nil {
		w.End(h, e)
		return nil
	}
	w.signalGap(h)
	h.Handle.HoldUntil(w.limitHold(r.NotBefore))
	if b.request != nil { // a restored shard may have many
		b.request.holdDeliveries(h, w.Now)
		w.logEvent(ctx, "webhook subscription begins", h)
	}
	w.performRequests(h, r)
	return nil
}

// start adds a subscription to the engine. Deliveries do not start until the caller calls HoldUntil.
func (w *Subscriptions) start(ctx context.Context, p *ownedShard, a eventtype.Arguments, r store.Subscription, b *beginning) (*Live, error) {
	if r.RefreshedAt.After(r.Health.SuspendedAfter) {
		r.Health.Suspended, r.Health.SuspendedAfter = false, time.Time{} // the refresh did not reach its owner (SUB-5)
	}
	cursor, epochChanged, positionLost, err := w.convertProgress(ctx, p, a.Def, &r)
	if err != nil {
		return nil, p.fencedToClosed(err)
	}
	h := &Live{reader: b.reader, charge: w.argumentsSize(a),
		ownedShard: p, admitted: r.Admitted, created: r.CreatedAt.UnixNano(), revision: r.Revision, refreshed: r.RefreshedAt.UnixNano(),
		schema: r.Schema, dialect: wire.Dialect(r.Codes), gaps: r.Requests[store.RequestGap].Signaled}
	switch {
	case h.reader != nil:
	case a.Def.Check() == nil:
		h.reader = w.newLogReader(p.et, identityOf(&r), a)
	default:
		if h.reader, b.truncated, err = w.openFeedReader(ctx, p.et, identityOf(&r), a, cursor, true); err != nil {
			return nil, err
		}
	}
	if positionLost = positionLost || b.truncated && b.request == nil; positionLost { // a response reports its gap
		// Store the gap before progress moves past it (D7). Otherwise the next owner would miss it after a crash.
		if err := w.setTruncated(ctx, r.ID, r.Generation, p, store.ControlPosition{}); err != nil {
			h.reader.Close()
			return nil, p.fencedToClosed(err)
		}
		r.Truncated = true
	}
	w.mu.Lock()
	log := p.log
	w.mu.Unlock()
	entry := delivery.Entry{Subscription: r, Reader: h.reader, Log: log, Shard: p.shard, Moved: epochChanged, Begin: h.reader.attach,
		Hold: w.Now().Add(changeTime), Gap: positionLost, Answered: b.answered}
	if begun := lastReplay(&r); begun != nil && log != nil && !epochChanged {
		entry.Replay = &delivery.Replay{By: begun.Actor, Last: begun.Last, Settled: begun.Settled}
	}
	if h.Handle, err = w.engine.Add(ctx, entry); err != nil {
		h.reader.Close()
	} else if err = w.addLive(h, b.earlier); err != nil {
		h.Handle.Remove()
	} else {
		b.live = h
	}
	if errors.Is(err, delivery.ErrClosed) {
		err = errShardClosed
	}
	return h, err
}

// incompatible returns the error that ends a subscription whose type changed incompatibly before the subscription became
// live, or nil.
func (w *Subscriptions) incompatible(h *Live) *events.Error {
	w.mu.Lock()
	schema := h.schema
	w.mu.Unlock()
	return cmp.Or(h.Type().Refuses(), w.cluster.Obsolete(h.Type(), schema, true))
}

// deleteUnstarted deletes the record of a subscription that could not be started, even if the caller's context is done.
func (w *Subscriptions) deleteUnstarted(r *store.Subscription) {
	ctx, cancel := finishContext()
	defer cancel()
	if err := w.store.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
		w.o.Log.Internal(ctx, "deleting the record of webhook subscription "+r.ID, err)
	}
}

// logEvent logs a message about a subscription with its id and event. It never logs secrets, URLs or payloads.
func (w *Subscriptions) logEvent(ctx context.Context, message string, h *Live, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String("subscription", h.ID()), slog.String("event", h.Type().Name())}, more...)
	w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: "+message, attrs...)
}
