package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ReplayTime bounds how long [Subscriptions.Replay] waits for a check.
const ReplayTime = 10 * time.Second

// Replay goes back to the cursor, never past what is unsettled, and delivers up to a position again, 0 for no end. After an
// error the subscription goes on where it was.
func (w *Subscriptions) Replay(ctx context.Context, id, cursor string, last store.Position) error {
	h, err := w.Reach(ctx, id)
	if err != nil {
		return err
	}
	a, ok := h.reader.arguments()
	if !ok {
		return fault.NotFound("event")
	}
	switch {
	case a.Def.Kernel().NoReplay:
		return NoReplay(h.Type.Name())
	case a.Def.Check() == nil:
		return w.rewind(ctx, h, a, cursor, last)
	case last > 0:
		return endless(h.Type.Name())
	default:
		return w.restart(ctx, h, a, cursor)
	}
}

// NoReplay says why a type's occurrences cannot be replayed and why it has no gaps (CUR-7).
func NoReplay(event string) error {
	return fmt.Errorf("event type %s has no replay, so there is nothing to replay and no gap to report: %w",
		event, events.NewError(wire.Unsupported, map[string]string{"feature": "replay"}))
}

// endless says why a replay of what a check finds has no end.
func endless(event string) error {
	return fmt.Errorf("the source of event type %s is a check, so a replay always runs to the present: %w",
		event, events.NewError(wire.Unsupported, map[string]string{"feature": "until"}))
}

// badCursor is an operator's cursor that no subscription could ever have got from this place.
func badCursor(cursor, why string) error {
	return events.Invalid(events.FieldError{Message: fmt.Sprintf("the cursor of %d bytes %s", len(cursor), why)})
}

// checkCursor refuses a cursor that is none of the subscription's. What retention has dropped, and
// what an earlier life of a memory log has given out, is one all the same.
func (w *Subscriptions) checkCursor(ctx context.Context, et eventtype.Type, principal string, a eventtype.Arguments, cursor string) error {
	c, err := wire.ParseCursor(cursor)
	d := a.Def
	switch {
	case err != nil:
		return badCursor(cursor, "is malformed")
	case c.Name != d.Kernel().NameHash:
		return badCursor(cursor, "belongs to another event type")
	}
	if d.Check() == nil && c.Kind != wire.LogCursor {
		return badCursor(cursor, "is not a log cursor")
	}
	if d.Check() != nil {
		if !et.Feeds().Owns(d.Check(), a.Arguments, principal, cursor) {
			return badCursor(cursor, "belongs to a subscription with other arguments or another principal")
		}
	}
	if d.Check() != nil && !d.Check().Emits {
		return nil
	}
	_, head := et.Topic().Bounds()
	if c.Epoch != et.Topic().Epoch() {
		return nil
	}
	if c.Position > uint64(head) {
		if head, err = et.Topic().Latest(ctx); err != nil {
			return err
		}
	}
	if c.Position > uint64(head) {
		return badCursor(cursor, fmt.Sprintf("is of position %d, beyond the head %d", c.Position, head))
	}
	return nil
}

// CheckReplay is what [Subscriptions.Replay] refuses at once, for a record whose subscription lives in
// another process.
func (w *Subscriptions) CheckReplay(ctx context.Context, r *store.Subscription, cursor string, last store.Position) error {
	et, ok := w.host.Type(r.Event)
	if !ok || et.Current() == nil {
		return fault.NotFound("event")
	}
	a, err := eventtype.Reparse(et.Current(), r.Arguments)
	if err != nil {
		return fault.NotFound("event") // as this process knows it
	}
	if a.Def.Kernel().NoReplay {
		return NoReplay(r.Event)
	}
	if a.Def.Check() != nil && last > 0 {
		return endless(r.Event)
	}
	return w.checkCursor(ctx, et, r.Principal, a, cursor)
}

// rewind replays from the type's own log.
func (w *Subscriptions) rewind(ctx context.Context, h *Live, a eventtype.Arguments, cursor string, last store.Position) error {
	unlock, err := w.keys.Lock(ctx, h.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if w.Get(h.ID) != h {
		return fault.NotFound("subscription")
	}
	if err := w.checkCursor(ctx, h.Type, h.Principal, a, cursor); err != nil {
		return err
	}
	_, head := h.Type.Topic().Bounds()
	from, err := h.Type.Topic().Start(ctx, a.Def.Kernel(), head, topic.Replay{Cursor: &cursor})
	if err != nil {
		return err
	}
	if err := h.Handle.Rewind(ctx, min(from.Position, h.Handle.Base()), last); err != nil {
		return err
	}
	if from.Truncated {
		h.Handle.Gap()
	}
	return nil
}

// restart replays from a check. What a check found is numbered for one life of its reader, so a
// new reader takes the place of the old one. It is opened first, within a bounded time and without
// the key: a check that hangs holds up nobody, and the feed that both share stays in use
// throughout.
func (w *Subscriptions) restart(ctx context.Context, h *Live, a eventtype.Arguments, cursor string) error {
	if err := w.checkCursor(ctx, h.Type, h.Principal, a, cursor); err != nil {
		return err
	}
	if f, ok := h.reader.(*feedReader); ok {
		cursor = f.notAfter(cursor)
	}
	limited, cancel := context.WithTimeoutCause(ctx, ReplayTime, errReplayTime)
	defer cancel()
	reader, truncated, err := w.openFeedReader(limited, h.Type, h.Identity(), a, cursor, false)
	if err != nil {
		if cause := context.Cause(limited); ctx.Err() == nil && cause != nil {
			return cause
		}
		return err
	}
	next, err := w.replace(ctx, h, reader, cursor)
	if err != nil {
		reader.Close()
		return err
	}
	if truncated {
		next.Handle.Gap()
	}
	return nil
}

var errReplayTime = fmt.Errorf("the check has not answered within %s: %w", ReplayTime, events.Upstream(""))

// replace puts a subscription with another reader in the place of h: another life of the same one,
// for which its members need not be asked. After an error h goes on.
func (w *Subscriptions) replace(ctx context.Context, h *Live, reader boundReader, cursor string) (*Live, error) {
	unlock, err := w.keys.Lock(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if w.Get(h.ID) != h {
		return nil, fault.NotFound("subscription")
	}
	records := h.part.owned
	old, r, err := w.anew(ctx, records, h.ID, cursor)
	if err != nil {
		return nil, err
	}
	next := &Live{part: h.part, created: h.created, ID: h.ID, Principal: h.Principal, Type: h.Type, Generation: r.Generation,
		charge: h.charge, reader: reader}
	next.Handle, err = w.engine.Add(ctx, delivery.Entry{Subscription: r, Reader: reader, Shard: h.part.shard, Begin: reader.attach})
	if err == nil && !w.succeed(h, next) {
		// It was ended meanwhile, for which nobody needs the key.
		next.Handle.Remove()
		w.undo(&r)
		return nil, errGone
	}
	if err != nil {
		w.putBack(records, &r, &old)
		return nil, err
	}
	h.Handle.Remove()
	w.tell(ctx, "webhook subscription is replayed", next, slog.Uint64("generation", next.Generation))
	w.catchUp(next)
	return next, nil
}

// anew stores the record of another life, which begins at the cursor. It takes over what another process
// has changed meanwhile, such as a secret.
func (w *Subscriptions) anew(ctx context.Context, records engine.Owned, id, cursor string) (old, r store.Subscription, err error) {
	for range maxRounds {
		var ok bool
		if old, ok, err = w.store.Subscription(ctx, id); err != nil || !ok {
			if err == nil {
				err = errGone
			}
			return old, r, err
		}
		r = old
		r.Generation, r.Progress = newGeneration(), store.Progress{Upstream: cursor}
		revision, putErr := records.PutSubscription(ctx, r)
		if err = w.begun(&r, revision, putErr); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	return old, r, err
}

// putBack makes the store have the earlier life again, whose deliveries go on.
func (w *Subscriptions) putBack(records engine.Owned, r, old *store.Subscription) {
	ctx, cancel := finishing()
	defer cancel()
	old.Revision = r.Revision
	_, err := records.PutSubscription(ctx, *old)
	if errors.Is(err, store.ErrConflict) {
		w.Changed(old.ID, inShard(old)) // another process has changed it meanwhile
		return
	}
	if err != nil && !errors.Is(err, store.ErrClosed) {
		w.o.Log.Internal(ctx, "putting back webhook subscription "+r.ID, err)
	}
}

// succeed makes next live in the place of h; false when h is not live any more.
func (w *Subscriptions) succeed(h, next *Live) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[h.ID] != h {
		return false
	}
	next.dialect, next.refreshed, next.schema = h.dialect, h.refreshed, h.schema
	h.next = next
	w.byID[h.ID] = next
	delete(h.part.live, h)
	h.part.live[next] = struct{}{}
	return true
}

// latest is the present life of a subscription that somebody has found earlier.
func (w *Subscriptions) latest(h *Live) *Live {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h.next != nil {
		h = h.next
	}
	return h
}

// Gap tells the subscription, or its later life, that occurrences may be missing (HOOK-7).
func (w *Subscriptions) Gap(h *Live) { w.latest(h).Handle.Gap() }
