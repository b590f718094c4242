package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// ReplayTime is the maximum time that a replay waits for a check.
const ReplayTime = 10 * time.Second

// replay performs a RequestReplay that begins a replay. It never skips unsettled occurrences. After an error, the
// subscription continues at its previous position.
func (w *Subscriptions) replay(ctx context.Context, h *Live, q *store.Request) error {
	a, err := h.reader.Current()
	if err != nil {
		return fault.NotFound("event")
	}
	switch {
	case a.Def.Kernel().NoReplay:
		return NoReplay(h.Type().Name())
	case a.Def.Check() == nil:
		return w.replayFromLog(ctx, h, a, q)
	case q.Last > 0:
		return untilError(h.Type().Name())
	default:
		return w.replayFromCheck(ctx, h, a, q.Cursor)
	}
}

// NoReplay returns the error for a request to replay occurrences or signal a gap of a type without replay (CUR-7).
func NoReplay(event string) error {
	return fmt.Errorf("event type %s has no replay, so there is nothing to replay and no gap to report: %w",
		event, events.NewError(wire.Unsupported, map[string]string{"feature": "replay"}))
}

// untilError returns the error for a replay with an end position on a check, which is not supported.
func untilError(event string) error {
	return fmt.Errorf("the source of event type %s is a check, so a replay always runs to the present: %w",
		event, events.NewError(wire.Unsupported, map[string]string{"feature": "until"}))
}

// cursorError returns the error for an operator's cursor that the subscription cannot have received.
func cursorError(cursor, why string) error {
	return events.Invalid(events.FieldError{Message: fmt.Sprintf("the cursor of %d bytes %s", len(cursor), why)})
}

// checkCursor returns an error if the cursor does not belong to the subscription. It accepts the cursor of an evicted
// entry or of an earlier epoch of a memory log.
func (w *Subscriptions) checkCursor(ctx context.Context, et eventtype.Type, principal string, a eventtype.Arguments, cursor string) error {
	c, err := wire.ParseCursor(cursor)
	d := a.Def
	switch {
	case err != nil:
		return cursorError(cursor, "is malformed")
	case c.Name != d.Kernel().NameHash:
		return cursorError(cursor, "belongs to another event type")
	}
	if d.Check() == nil && c.Kind != wire.LogCursor {
		return cursorError(cursor, "is not a log cursor")
	}
	if d.Check() != nil {
		if !et.Feeds().Owns(d.Check(), a.Arguments, principal, cursor) {
			return cursorError(cursor, "belongs to a subscription with other arguments or another principal")
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
		return cursorError(cursor, fmt.Sprintf("is of position %d, beyond the head %d", c.Position, head))
	}
	return nil
}

// CheckReplay performs the initial checks of a replay for a subscription that another process owns.
func (w *Subscriptions) CheckReplay(ctx context.Context, r *store.Subscription, cursor string, last store.Position) error {
	et, ok := w.host.Type(r.Event)
	if !ok || et.Current() == nil {
		return fault.NotFound("event")
	}
	a, err := eventtype.Reparse(et.Current(), r.Arguments)
	if err != nil {
		return fault.NotFound("event") // not registered in this process
	}
	if a.Def.Kernel().NoReplay {
		return NoReplay(r.Event)
	}
	if a.Def.Check() != nil && last > 0 {
		return untilError(r.Event)
	}
	return w.checkCursor(ctx, et, r.Principal, a, cursor)
}

// replayFromLog replays from the type's log.
func (w *Subscriptions) replayFromLog(ctx context.Context, h *Live, a eventtype.Arguments, q *store.Request) error {
	unlock, err := w.keys.Lock(ctx, h.ID())
	if err != nil {
		return err
	}
	defer unlock()
	if w.Get(h.ID()) != h {
		return delivery.ErrClosed
	}
	if err := w.checkCursor(ctx, h.Type(), h.Principal(), a, q.Cursor); err != nil {
		return err
	}
	_, head := h.Type().Topic().Bounds()
	from, err := h.Type().Topic().Start(ctx, a.Def.Kernel(), head, topic.Replay{Cursor: &q.Cursor})
	if err != nil {
		return err
	}
	begun := func(replay *delivery.Replay) bool {
		return w.editRequest(h, store.RequestReplay, "begun", func(stored *store.Request) {
			stored.Replay = &store.Replay{Actor: replay.By, Last: replay.Last, Settled: replay.Settled}
		})
	}
	if err := h.Handle.Rewind(ctx, min(from.Position, h.Handle.Base()), q.Last, begun); err != nil {
		return err
	}
	if from.Truncated {
		h.Handle.Gap()
	}
	return nil
}

// replayFromCheck replays from a check. The numbers of a check's occurrences are only valid for one reader, so a new
// reader replaces the old one. The new reader is opened before the old reader is closed, so the feed that both readers
// share remains in use. Opening the reader has a timeout and does not require the key, so a hanging check does not
// block other requests.
func (w *Subscriptions) replayFromCheck(ctx context.Context, h *Live, a eventtype.Arguments, cursor string) error {
	if err := w.checkCursor(ctx, h.Type(), h.Principal(), a, cursor); err != nil {
		return err
	}
	if f, ok := h.reader.(*feedReader); ok {
		cursor = f.resumeCursor(cursor)
	}
	limited, cancel := context.WithTimeoutCause(ctx, ReplayTime, errReplayTime)
	defer cancel()
	reader, truncated, err := w.openFeedReader(limited, h.Type(), h.Identity(), a, cursor, false)
	if err != nil {
		if cause := context.Cause(limited); ctx.Err() == nil && cause != nil {
			return cause
		}
		return err
	}
	next, err := w.startNewLife(ctx, h, reader, cursor)
	if err != nil {
		reader.Close()
		return err
	}
	if truncated {
		next.Handle.Gap()
	}
	return nil
}

var errReplayTime = fmt.Errorf("the check did not return within %s: %w", ReplayTime, events.Upstream(""))

// startNewLife replaces h with a new life of the same subscription, which uses the given reader. It does not call the
// hooks. After an error, h continues. If the new record is already stored, the subscription then continues from the
// cursor of the replay, here or at the next owner.
func (w *Subscriptions) startNewLife(ctx context.Context, h *Live, reader boundReader, cursor string) (*Live, error) {
	unlock, err := w.keys.Lock(ctx, h.ID())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if w.Get(h.ID()) != h {
		return nil, delivery.ErrClosed
	}
	p, generation := h.ownedShard, newGeneration()
	r, err := w.editRecordWith(ctx, p.owned.PutSubscription, h.ID(), func(r *store.Subscription) bool {
		r.Generation, r.Progress = generation, store.Progress{Upstream: cursor}
		return true
	})
	b := &beginning{earlier: h, reader: reader}
	if err = p.fencedToClosed(w.confirmStored(&r, r.Revision, err)); err == nil {
		err = w.begin(ctx, p, &r, b)
	}
	switch {
	case err == nil:
		h.Handle.Remove()
		w.logEvent(ctx, "webhook subscription is replayed", b.live, slog.Uint64("generation", generation))
	case errors.Is(err, errNoRecord): // it was ended meanwhile, which does not require the key
		w.deleteUnstarted(&store.Subscription{ID: h.ID(), Generation: generation})
	case !errors.Is(err, errShardClosed):
		w.Changed(h.ID(), shardOfRecord(&r))
	}
	return b.live, err
}

// currentLife returns the current life of a subscription.
func (w *Subscriptions) currentLife(h *Live) *Live {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h.next != nil {
		h = h.next
	}
	return h
}

// gap performs a RequestGap. It waits for the first attempt, because only the owner knows of the envelope. If the owner
// changes before, the next one sends an envelope.
func (w *Subscriptions) gap(ctx context.Context, h *Live) error {
	sent, err := h.Handle.Gap()
	if sent == nil {
		return err
	}
	select {
	case <-sent:
	case <-ctx.Done():
	case <-h.ownedShard.ownership.Draining():
		return delivery.ErrClosed
	}
	return nil
}
