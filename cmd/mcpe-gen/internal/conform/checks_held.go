package conform

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// answerTries is how many polls are held at most until one of them was held while something occurred: of a type that emits
// all the time they may be answered first.
const answerTries = 5

// checkHeldAnswers holds a poll, makes others to learn when something occurs, and compares their events with the answer.
func checkHeldAnswers(ctx context.Context, r *run) error {
	end := time.Now().Add(min(r.o.Wait, r.o.pace.call))
	for range answerTries {
		if held, err := r.hold(ctx, end); held || err != nil {
			return err
		}
	}
	return skipf("none of %d polls was held until something occurred", answerTries)
}

// A heldAnswer is the answer to a poll that was held.
type heldAnswer struct {
	x   *exchange
	err error
}

// hold holds a poll at the newest cursor until something occurs. held is false if its answer came before a poll next to it
// was answered with nothing, so that it may not have been held, or before anything occurred, which a server may do.
func (r *run) hold(ctx context.Context, end time.Time) (held bool, err error) {
	_, result, err := r.polled(ctx, r.poll, map[string]any{"cursor": nil})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	answered := make(chan heldAnswer, 1)
	done := make(chan struct{})
	defer func() { cancel(); <-done }() // the call ends with ctx
	go func() {
		defer close(done)
		x, err := r.quiet(ctx, wire.MethodPoll, r.poll.params(map[string]any{"cursor": result.Cursor, "timeoutMs": 60_000}))
		answered <- heldAnswer{x, err}
	}()
	w := &witness{r: r, s: r.poll}
	for waited := false; time.Now().Before(end) && ctx.Err() == nil; {
		x, page, ok := w.poll(ctx, result.Cursor, 0)
		switch {
		case !ok && x.answer.raw == nil && ctx.Err() == nil:
			return false, x.wrong("an answer to a poll next to a held one", "none")
		case !ok || page.truncated:
			return false, skipf("a poll next to it was not answered with a page, or was truncated")
		case len(page.events) > 0:
			select {
			case got := <-answered:
				woken, err := r.followHeld(ctx, got, *result.Cursor)
				return waited && woken, err
			case <-time.After(2 * lateBy):
				return false, x.wrong("the answer to a poll that is held at the same cursor, since there is something to return", "none within %v of it",
					2*lateBy)
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		waited = waited || len(answered) == 0
		select {
		case got := <-answered:
			woken, err := r.followHeld(ctx, got, *result.Cursor)
			return waited && woken, err
		case <-time.After(r.o.pace.poll):
		case <-ctx.Done():
		}
	}
	return false, skipf("nothing occurred while it was held")
}

// followHeld reads on from the cursor of a held poll's answer, and compares with polls from the cursor at which it was held.
// woken is true if they bring an event.
func (r *run) followHeld(ctx context.Context, got heldAnswer, at string) (woken bool, err error) {
	if got.err != nil || got.x.answer.err != nil {
		return false, skipf("the poll that was held was not answered with a page") // POLL-9 has another check for that
	}
	var page struct {
		Events    []json.RawMessage `json:"events"`
		Cursor    *string           `json:"cursor"`
		Truncated bool              `json:"truncated"`
	}
	if json.Unmarshal(got.x.answer.result, &page) != nil || page.Cursor == nil || page.Truncated {
		return false, skipf("the answer to the poll that was held has no cursor to go on from, or is truncated")
	}
	// The order matters: only the second may have events from between the two.
	want := r.behind(ctx, r.poll, at)
	then := r.behind(ctx, r.poll, *page.Cursor)
	if want == nil || then == nil {
		return false, skipf("a poll after it was not answered with a page, or was truncated")
	}
	for _, raw := range page.Events {
		then = append(then, (occurrence{raw: raw}).eventID())
	}
	for _, id := range want {
		if !slices.Contains(then, id) {
			return true, got.x.wrong(wire.Shown(id)+" in the answer or after its cursor, as polls have it after the cursor that it was held at", "neither")
		}
	}
	return len(want) > 0, nil
}
