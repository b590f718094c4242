package subscriber

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A seat describes how a subscription is started.
type seat struct {
	part *part
	hold time.Time // earliest delivery
	// moved is true if the stored progress belongs to another epoch of the log.
	moved bool
	// fresh is true for a new subscription, false for a restored one.
	fresh bool
	// lost is true if the position of the stored progress is no longer in the log.
	lost bool
	// answered is the time the endpoint took for its challenge; 0 without a challenge.
	answered time.Duration
}

// start passes a subscription whose record is stored to the engine. truncated reports whether a check could not
// continue from cursor. The caller holds the key and has called Join. The engine delivers nothing before at.hold.
func (w *Subscriptions) start(ctx context.Context, et eventtype.Type, a eventtype.Arguments, r store.Subscription, cursor string, at seat) (h *Live, truncated bool, err error) {
	sub := identityOf(&r)
	h = &Live{ID: r.ID, Principal: r.Principal, Type: et, Generation: r.Generation, charge: w.charge(a),
		part: at.part, created: r.CreatedAt.UnixNano(), refreshed: r.RefreshedAt.UnixNano(), schema: r.Schema, dialect: wire.Dialect(r.Codes)}
	if a.Def.Check() != nil {
		if h.reader, truncated, err = w.openFeedReader(ctx, et, sub, a, cursor, true); err != nil {
			return nil, false, err
		}
	} else {
		h.reader = w.newLogReader(et, sub, a)
	}
	// The response reports the gap to a new subscriber.
	if at.lost = (at.lost || truncated) && !at.fresh; at.lost {
		// Store the gap before progress moves past it (D7): otherwise the next owner would not see it after a crash.
		if err := w.noteGap(ctx, r.ID, r.Generation, at.part); err != nil {
			h.reader.Close()
			return nil, false, err
		}
		r.Truncated = true
	}
	w.mu.Lock()
	log := at.part.log
	w.mu.Unlock()
	entry := delivery.Entry{Subscription: r, Reader: h.reader, Log: log, Shard: at.part.shard,
		Moved: at.moved, Begin: h.reader.attach, Hold: at.hold, Gap: at.lost, Answered: at.answered}
	if begun := lastReplay(&r); begun != nil && log != nil && !at.moved {
		entry.Replay = &delivery.Replay{By: begun.Actor, Last: begun.Last, Settled: begun.Settled}
	}
	h.Handle, err = w.engine.Add(ctx, entry)
	if err != nil {
		h.reader.Close()
		return nil, false, err
	}
	if !w.enlist(h) {
		h.Handle.Remove()
		return nil, false, delivery.ErrClosed
	}
	if at.fresh { // a restored shard may have many
		w.tell(ctx, "webhook subscription begins", h)
	}
	w.catchUp(h)
	return h, truncated, nil
}

// catchUp ends a subscription whose type changed before the subscription was live.
func (w *Subscriptions) catchUp(h *Live) {
	w.mu.Lock()
	schema := h.schema
	w.mu.Unlock()
	if e := h.Type.Refuses(); e != nil {
		w.End(h, e)
	} else if e := w.cluster.Obsolete(h.Type, schema, true); e != nil {
		w.End(h, e)
	}
}

// undo deletes the record of a subscription that could not start, even if the caller's context has ended.
func (w *Subscriptions) undo(r *store.Subscription) {
	ctx, cancel := finishing()
	defer cancel()
	if err := w.store.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
		w.o.Log.Internal(ctx, "deleting the record of webhook subscription "+r.ID, err)
	}
}

// tell logs a message about a subscription with its id and event, never a secret, URL or payload.
func (w *Subscriptions) tell(ctx context.Context, message string, h *Live, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String("subscription", h.ID), slog.String("event", h.Type.Name())}, more...)
	w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: "+message, attrs...)
}
