package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// replayTime bounds how long [Admin.Replay] waits for a check.
const replayTime = 10 * time.Second

// replay goes back to the cursor, never past what is unsettled. After an error the subscription
// goes on where it was.
func (w *webhooks) replay(ctx context.Context, id, cursor string) error {
	h := w.get(id)
	if h == nil {
		return fault.NotFound("subscription")
	}
	a, ok := h.reader.arguments()
	if !ok {
		return fault.NotFound("event")
	}
	switch {
	case a.def.info.NoReplay:
		return noReplay(h.et.name)
	case a.def.check == nil:
		return w.rewind(ctx, h, a, cursor)
	default:
		return w.restart(ctx, h, a, cursor)
	}
}

// noReplay says why a type's occurrences cannot be replayed and why it has no gaps (CUR-7).
func noReplay(event string) error {
	return fmt.Errorf("event type %s has no replay, so there is nothing to go back to and no gap to tell of: %w",
		event, events.NewError(wire.Unsupported, map[string]string{"feature": "replay"}))
}

// badCursor is an operator's cursor that no subscription could ever have got from this place.
func badCursor(cursor, why string) error {
	return fmt.Errorf("the cursor of %d bytes %s: %w",
		len(cursor), why, events.Invalid(events.FieldError{Path: "/cursor", Message: why}))
}

// checkCursor refuses a cursor that is none of the subscription's. What retention has dropped, and
// what an earlier life of a memory log has given out, is one all the same.
func (w *webhooks) checkCursor(h *subscription, a arguments, cursor string) error {
	c, err := wire.ParseCursor(cursor)
	d := a.def
	switch {
	case err != nil:
		return badCursor(cursor, "is malformed")
	case c.Name != d.NameHash:
		return badCursor(cursor, "belongs to another event type")
	}
	if d.check == nil && c.Kind != wire.LogCursor {
		return badCursor(cursor, "is not one of a log")
	}
	if d.check != nil {
		if !h.et.feeds.Owns(d.check, a.Arguments, h.principal, cursor) {
			return badCursor(cursor, "belongs to other arguments or to another principal")
		}
	}
	if d.check != nil && !d.emits {
		return nil
	}
	_, head := h.et.topic.Bounds()
	if c.Epoch == h.et.topic.Epoch() && c.Position > uint64(head) {
		return badCursor(cursor, fmt.Sprintf("is of position %d, beyond the head %d", c.Position, head))
	}
	return nil
}

// rewind replays from the type's own log.
func (w *webhooks) rewind(ctx context.Context, h *subscription, a arguments, cursor string) error {
	unlock, err := w.keys.Lock(ctx, h.id)
	if err != nil {
		return err
	}
	defer unlock()
	if w.get(h.id) != h {
		return fault.NotFound("subscription")
	}
	if err := w.checkCursor(h, a, cursor); err != nil {
		return err
	}
	_, head := h.et.topic.Bounds()
	from, err := h.et.topic.Start(ctx, &a.def.Type, head, topic.Replay{Cursor: &cursor})
	if err != nil {
		return err
	}
	if err := h.handle.Rewind(ctx, min(from.Position, h.handle.Progress().Base)); err != nil {
		return err
	}
	if from.Truncated {
		h.handle.Gap()
	}
	return nil
}

// restart replays from a check. What a check found is numbered for one life of its reader, so a
// new reader takes the place of the old one. It is opened first, within a bounded time and without
// the key: a check that hangs holds up nobody, and the feed that both share stays in use
// throughout.
func (w *webhooks) restart(ctx context.Context, h *subscription, a arguments, cursor string) error {
	if err := w.checkCursor(h, a, cursor); err != nil {
		return err
	}
	if f, ok := h.reader.(*webhookFeed); ok {
		cursor = f.notAfter(cursor)
	}
	limited, cancel := context.WithTimeoutCause(ctx, replayTime, errReplayTime)
	defer cancel()
	reader, truncated, err := openWebhookFeed(limited, h.et, h.sub(), a, cursor, false)
	if err != nil {
		if cause := context.Cause(limited); ctx.Err() == nil && cause != nil {
			return cause
		}
		return err
	}
	next, err := w.replace(ctx, h, a, reader, cursor)
	if err != nil {
		reader.Close()
		return err
	}
	if truncated {
		next.handle.Gap()
	}
	return nil
}

var errReplayTime = fmt.Errorf("the check has not answered within %s: %w", replayTime, events.Upstream(""))

// replace puts a subscription with another reader in the place of h: another life of the same one,
// for which its members need not be asked. After an error h goes on.
func (w *webhooks) replace(ctx context.Context, h *subscription, a arguments, reader webhookReader, cursor string) (*subscription, error) {
	unlock, err := w.keys.Lock(ctx, h.id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if w.get(h.id) != h {
		return nil, fault.NotFound("subscription")
	}
	old, ok, err := w.store.Subscription(ctx, h.id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errGone
	}
	r := old
	r.Generation, r.Progress = newGeneration(), store.Progress{Upstream: cursor}
	if err := w.putNew(ctx, &r); err != nil {
		return nil, err
	}
	next := &subscription{id: h.id, principal: h.principal, url: h.url, et: h.et, generation: r.Generation,
		charge: h.charge, reader: reader}
	next.handle, err = w.engine.Add(ctx, delivery.Entry{Subscription: r, Reader: reader, Begin: reader.attach})
	if err == nil && !w.succeed(h, next) {
		// It was ended meanwhile, for which nobody needs the key.
		next.handle.Remove()
		w.undo(&r)
		return nil, errGone
	}
	if err != nil {
		w.putBack(&r, &old)
		return nil, err
	}
	h.handle.Remove()
	w.log(ctx, "webhook subscription is replayed", next, slog.Uint64("generation", next.generation))
	w.catchUp(next, a)
	return next, nil
}

// putNew stores the record of another life. A step whose answer was lost may have been taken all
// the same: the store is asked.
func (w *webhooks) putNew(ctx context.Context, r *store.Subscription) error {
	err := w.put(ctx, r)
	if err == nil {
		return nil
	}
	ctx, cancel := w.server.hookContext(hookTime)
	defer cancel()
	if now, ok, readErr := w.store.Subscription(ctx, r.ID); readErr == nil && ok && now.Generation == r.Generation {
		r.Revision = now.Revision
		return nil
	}
	return err
}

// putBack makes the store have the earlier life again, whose deliveries go on.
func (w *webhooks) putBack(r, old *store.Subscription) {
	ctx, cancel := w.server.hookContext(hookTime)
	defer cancel()
	old.Revision = r.Revision
	if err := w.put(ctx, old); err != nil && !errors.Is(err, store.ErrClosed) {
		w.server.log.Internal(ctx, "putting back webhook subscription "+r.ID, err)
	}
}

// succeed makes next live in the place of h; false when h is not live any more.
func (w *webhooks) succeed(h, next *subscription) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[h.id] != h {
		return false
	}
	next.dialect = h.dialect
	h.next = next
	w.byID[h.id] = next
	return true
}

// latest is the present life of a subscription that somebody has found earlier.
func (w *webhooks) latest(h *subscription) *subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h.next != nil {
		h = h.next
	}
	return h
}
