package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// ErrLost is returned by [Handle.SendAgain] for an occurrence that the log has no more, or that does
// not concern the subscription any more.
var ErrLost = errors.New("delivery: the occurrence cannot be read any more")

// SendAgain makes one attempt, now and by the caller, at an occurrence of which an attempt was made
// before, under its webhook-id and whatever became of it. What it comes to is kept as any attempt;
// it settles nothing, moves no watermark and says nothing about the endpoint's health. A suspended
// subscription is sent to as well.
func (h *Handle) SendAgain(ctx context.Context, made store.Attempt) (store.Attempt, error) {
	e := h.e
	e.mu.Lock()
	shard := h.shard
	if h.gone || e.closing || shard.closing {
		e.mu.Unlock()
		return store.Attempt{}, ErrClosed
	}
	shard.busy++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		shard.end()
	}()
	f, err := h.reader.Read(ctx, made.Position-1, 1)
	if err != nil {
		return store.Attempt{}, fmt.Errorf("delivery: reading occurrence %s: %w", made.EventID, err)
	}
	if len(f.Items) == 0 || f.Items[0].Position != made.Position || f.Items[0].EventID != made.EventID || f.Items[0].Body == nil {
		return store.Attempt{}, ErrLost
	}
	// The safe cursor: a receiver that keeps it goes back to nothing.
	body, err := f.Items[0].Body(h.Watermark())
	if err != nil {
		return store.Attempt{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	u := &unsettled{position: made.Position, dropped: true}
	u.attempts = made.Number
	r, err := e.send(h, &u.try, webhook.Message{ID: made.EventID, Subscription: h.id, Body: body}, "")
	switch {
	case err != nil:
		return store.Attempt{}, fmt.Errorf("delivery: %w", err)
	case r.aborted:
		return store.Attempt{}, ErrClosed
	}
	e.mu.Lock()
	defer e.unlock()
	u.began(r.at)
	return h.record(u, made.EventID, r), nil
}
