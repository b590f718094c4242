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

// A seat is where a subscription is started.
type seat struct {
	part *part
	hold time.Time // nothing is delivered before
	// moved: the record is stored with progress of another epoch of the log.
	moved bool
	// fresh tells that it was asked for just now although its record is stored.
	fresh bool
	// lost tells that what the record has come to is not in its log any more.
	lost bool
	// answered is how long the endpoint took for its challenge, 0 without a challenge.
	answered time.Duration
}

// start hands a subscription whose record is stored to the engine. truncated tells that a check could not go on
// from cursor. The caller holds the key and is a member. Nothing is delivered before the seat's hold.
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
	// The response tells a caller that has just asked.
	if at.lost = (at.lost || truncated) && !at.fresh; at.lost {
		// Before anything moves past the gap (D7): after a crash the next owner does not see it any more.
		if err := w.noteGap(ctx, r.ID, r.Generation, at.part); err != nil {
			h.reader.Close()
			return nil, false, err
		}
		r.Truncated = true
	}
	w.mu.Lock()
	log := at.part.log
	w.mu.Unlock()
	h.Handle, err = w.engine.Add(ctx, delivery.Entry{Subscription: r, Reader: h.reader, Log: log, Shard: at.part.shard,
		Moved: at.moved, Begin: h.reader.attach, Hold: at.hold, Gap: at.lost, Answered: at.answered})
	if err != nil {
		h.reader.Close()
		return nil, false, err
	}
	if !w.enlist(h) {
		h.Handle.Remove()
		return nil, false, delivery.ErrClosed
	}
	if at.fresh { // of a shard there may be many
		w.tell(ctx, "webhook subscription begins", h)
	}
	w.catchUp(h)
	return h, truncated, nil
}

// catchUp ends a subscription whose type was changed while nobody could see it.
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

// undo takes a record back whose subscription could not begin, also when the caller has gone.
func (w *Subscriptions) undo(r *store.Subscription) {
	ctx, cancel := finishing()
	defer cancel()
	if err := w.store.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
		w.o.Log.Internal(ctx, "taking back webhook subscription "+r.ID, err)
	}
}

// tell tells the operator of a subscription: its id and event, never a secret, URL or payload.
func (w *Subscriptions) tell(ctx context.Context, message string, h *Live, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String("subscription", h.ID), slog.String("event", h.Type.Name())}, more...)
	w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: "+message, attrs...)
}
