package subscriber

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// startOptions describes how to start a subscription.
type startOptions struct {
	ownedShard *ownedShard
	hold       time.Time // earliest delivery
	// epochChanged is true if the stored progress belongs to a different epoch of the log.
	epochChanged bool
	// fresh reports whether the subscription is new. If not, it is restored.
	fresh bool
	// positionLost is true if the position of the stored progress is no longer in the log.
	positionLost bool
	// answered is the endpoint's response time to its challenge, or 0 without a challenge.
	answered time.Duration
}

// start adds a subscription with a stored record to the engine. The result truncated reports whether the check was
// unable to continue from the cursor. The caller must hold the key and have called Join. The engine delivers nothing
// before at.hold.
func (w *Subscriptions) start(ctx context.Context, et eventtype.Type, a eventtype.Arguments, r store.Subscription, cursor string, at startOptions) (h *Live, truncated bool, err error) {
	sub := identityOf(&r)
	h = &Live{ID: r.ID, Principal: r.Principal, Type: et, Generation: r.Generation, charge: w.argumentsSize(a),
		ownedShard: at.ownedShard, admitted: r.Admitted, created: r.CreatedAt.UnixNano(), refreshed: r.RefreshedAt.UnixNano(), schema: r.Schema, dialect: wire.Dialect(r.Codes)}
	if a.Def.Check() != nil {
		if h.reader, truncated, err = w.openFeedReader(ctx, et, sub, a, cursor, true); err != nil {
			return nil, false, err
		}
	} else {
		h.reader = w.newLogReader(et, sub, a)
	}
	// For a new subscription, the response reports the gap.
	if at.positionLost = (at.positionLost || truncated) && !at.fresh; at.positionLost {
		// Store the gap before progress moves past it (D7). Otherwise the next owner would miss it after a crash.
		if err := w.setTruncated(ctx, r.ID, r.Generation, at.ownedShard); err != nil {
			h.reader.Close()
			return nil, false, err
		}
		r.Truncated = true
	}
	w.mu.Lock()
	log := at.ownedShard.log
	w.mu.Unlock()
	entry := delivery.Entry{Subscription: r, Reader: h.reader, Log: log, Shard: at.ownedShard.shard,
		Moved: at.epochChanged, Begin: h.reader.attach, Hold: at.hold, Gap: at.positionLost, Answered: at.answered}
	if begun := lastReplay(&r); begun != nil && log != nil && !at.epochChanged {
		entry.Replay = &delivery.Replay{By: begun.Actor, Last: begun.Last, Settled: begun.Settled}
	}
	h.Handle, err = w.engine.Add(ctx, entry)
	if err != nil {
		h.reader.Close()
		return nil, false, err
	}
	if !w.addLive(h) {
		h.Handle.Remove()
		return nil, false, delivery.ErrClosed
	}
	if at.fresh { // a restored shard may have many
		w.logEvent(ctx, "webhook subscription begins", h)
	}
	w.endIncompatible(h)
	return h, truncated, nil
}

// endIncompatible ends a subscription if its type changed incompatibly before the subscription became live.
func (w *Subscriptions) endIncompatible(h *Live) {
	w.mu.Lock()
	schema := h.schema
	w.mu.Unlock()
	if e := h.Type.Refuses(); e != nil {
		w.End(h, e)
	} else if e := w.cluster.Obsolete(h.Type, schema, true); e != nil {
		w.End(h, e)
	}
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
	attrs := append([]slog.Attr{slog.String("subscription", h.ID), slog.String("event", h.Type.Name())}, more...)
	w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: "+message, attrs...)
}
