package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// An origin says where a subscription that starts comes from.
type origin int

const (
	// asked for just now: its record is to be stored.
	asked origin = iota
	// stored before the process began: its log knows what it has been offered.
	stored
	// moved is stored with progress that is none of its log's.
	moved
	// admitted is stored with its concern, perhaps after its log was opened.
	admitted
)

// A seat is where a subscription is started.
type seat struct {
	part *part // nil where one process has the store
	from origin
	hold time.Time // nothing is delivered before
	// fresh tells that it was asked for just now although its record is stored.
	fresh bool
}

// start stores the record, unless it is there already, and hands the subscription to the engine.
// After an error nothing of it is left. truncated tells that a check could not go on from cursor.
// The caller holds the key and a place in the quotas, and is a member. Nothing is delivered before
// the seat's hold.
func (w *Subscriptions) start(ctx context.Context, et EventType, a Arguments, r store.Subscription, cursor string, at seat) (h *Live, truncated bool, err error) {
	sub := identityOf(&r)
	h = &Live{ID: r.ID, Principal: r.Principal, URL: r.URL, Type: et, Generation: r.Generation, charge: w.charge(a), dialect: wire.Dialect(r.Codes)}
	if a.Def.Check() != nil {
		if h.reader, truncated, err = w.openFeedReader(ctx, et, sub, a, cursor, true); err != nil {
			return nil, false, err
		}
	} else {
		h.reader = w.newLogReader(et, sub, a)
	}
	if at.part != nil {
		h.own = &ownership{part: at.part, created: r.CreatedAt, refreshed: r.RefreshedAt, schema: r.Schema}
	}
	if h.Handle, err = w.hand(ctx, &r, h.reader, at, et); err != nil {
		return nil, false, err
	}
	if !w.enlist(h) {
		h.Handle.Remove()
		return nil, false, delivery.ErrClosed
	}
	if at.part == nil || at.fresh { // of a shard there may be many
		w.tell(ctx, "webhook subscription begins", h, slog.Bool("restored", at.from != asked && !at.fresh))
	}
	w.catchUp(h, a)
	return h, truncated, nil
}

// catchUp ends a subscription whose type was changed while nobody could see it.
func (w *Subscriptions) catchUp(h *Live, a Arguments) {
	et := h.Type
	if e := et.Refuses(); e != nil {
		w.End(h, e)
	} else if w.sharing != nil {
		return // another process may serve it as it was
	} else if d := et.Current(); d == nil {
		w.End(h, fault.NotFound("event"))
	} else if d.Lineage() != a.Def.Lineage() {
		w.End(h, fault.SchemaChanged(d.Changed()))
	}
}

// hand stores the record where it is asked for and gives the subscription to the engine. After an
// error the reader is closed and nothing is stored.
//
// A record without a concern begins, after a crash, where its log is dispatched to. So a new one is
// stored as lapsed until the engine has stored its concern: a crash in between leaves nothing, and
// the subscriber, who has had no answer, begins anew from its cursor.
func (w *Subscriptions) hand(ctx context.Context, r *store.Subscription, reader boundReader, at seat, et EventType) (*delivery.Handle, error) {
	from, l, shard := at.from, w.logOf(et), (*delivery.Shard)(nil)
	if at.part != nil {
		w.mu.Lock()
		l, shard = at.part.log, at.part.shard
		w.mu.Unlock()
	}
	provisional := from == asked && l != nil && w.o.Durable
	if from == asked {
		first := *r
		if provisional {
			first.ExpiresAt = time.Unix(1, 0)
		}
		if err := w.put(ctx, &first); err != nil {
			reader.Close()
			return nil, err
		}
		r.Revision = first.Revision
	}
	handle, err := w.engine.Add(ctx, delivery.Entry{Subscription: *r, Reader: reader, Log: l, Shard: shard,
		Restored: from == stored || from == admitted, Late: from == admitted, Begin: reader.attach, Hold: at.hold})
	if err != nil {
		reader.Close()
	} else if provisional {
		if err = w.put(ctx, r); err != nil {
			handle.Remove()
		}
	}
	if err != nil {
		if from == asked {
			w.undo(r)
		}
		return nil, err
	}
	return handle, nil
}

// put stores a new record in place of whatever an earlier subscription has left.
func (w *Subscriptions) put(ctx context.Context, r *store.Subscription) error {
	for {
		revision, err := w.store.PutSubscription(ctx, *r)
		if err == nil {
			r.Revision = revision
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		left, _, err := w.store.Subscription(ctx, r.ID)
		if err != nil {
			return err
		}
		r.Revision = left.Revision
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

// log tells the operator of a subscription: its id and event, never a secret, URL or payload.
func (w *Subscriptions) tell(ctx context.Context, message string, h *Live, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String("subscription", h.ID), slog.String("event", h.Type.Name())}, more...)
	w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: "+message, attrs...)
}
