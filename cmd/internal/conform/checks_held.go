package conform

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// holdTimeout is the timeout that a long poll requests. maxHoldDelay is how late its response may be.
const (
	holdTimeout  = 2 * time.Second
	maxHoldDelay = 2 * time.Second
)

// checkHeldEnds sends long polls from the newest cursor until one of them times out without an occurrence. It first
// tries a type without occurrences, and then the one under test.
func checkHeldEnds(ctx context.Context, r *run) error {
	var tried []*subject
	for _, s := range r.typesWith(wire.ModePoll) {
		if s != r.poll && s.replay && len(r.knownIDs(s)) == 0 {
			tried = append(tried, s)
			break
		}
	}
	for _, s := range append(tried, slices.Repeat([]*subject{r.poll}, maxHoldTries)...) {
		if overtaken, err := r.expectHoldEnd(ctx, s); !overtaken || err != nil {
			return err
		}
	}
	return skipf("something occurred within %v each time that a poll was held", holdTimeout)
}

// expectHoldEnd sends a long poll and waits for it to time out. overtaken reports whether an event occurred before the
// timeout.
func (r *run) expectHoldEnd(ctx context.Context, s *subject) (overtaken bool, err error) {
	_, result, err := r.pollSubject(ctx, s, map[string]any{"cursor": nil})
	if err != nil {
		return false, err
	}
	x, result, err := r.pollSubject(ctx, s, map[string]any{"cursor": result.Cursor, "timeoutMs": holdTimeout.Milliseconds()})
	switch {
	case err != errLimited && x.answer.raw == nil:
		return false, x.violation("an answer after "+holdTimeout.String(), "none within %v", x.took.Round(time.Second))
	case err == nil && x.took > holdTimeout+maxHoldDelay:
		return false, x.violation("an answer after "+holdTimeout.String(), "one after %v", x.took.Round(time.Millisecond))
	}
	return len(result.Events) > 0, err
}

// nullHoldTimeout is the timeout that a long poll without a cursor requests.
const nullHoldTimeout = 8 * time.Second

// checkNullHeld sends a long poll without a cursor, which the server must answer immediately. Its arguments select no
// event that could end it.
func checkNullHeld(ctx context.Context, r *run) error {
	params := map[string]any{"cursor": nil, "timeoutMs": nullHoldTimeout.Milliseconds()}
	if q, err := r.awaitQuiet(ctx); err == nil {
		params["arguments"] = q.args
	}
	x, _, err := r.pollSubject(ctx, r.poll, params)
	if x.took > nullHoldTimeout/2 {
		return x.violation("the cursor at once, whatever timeoutMs is", "an answer after %v", x.took.Round(time.Millisecond))
	}
	return err
}

// maxCancelTries is the maximum number of long polls to try to cancel while they are pending. If a type emits events
// continuously, the server may respond before the cancellation.
const maxCancelTries = 20

func checkHeldCancelled(ctx context.Context, r *run) error {
	for range maxCancelTries {
		if overtaken, err := r.cancelHeld(ctx); !overtaken || err != nil {
			return err
		}
	}
	return skipf("each of %d polls was answered before it was cancelled", maxCancelTries)
}

// cancelHeld cancels a long poll and checks the response, if any. overtaken reports whether the response arrived first.
func (r *run) cancelHeld(ctx context.Context) (overtaken bool, err error) {
	// With the newest cursor, the server probably does not respond immediately.
	_, result, err := r.pollSubject(ctx, r.poll, map[string]any{"cursor": nil})
	if err != nil {
		return false, err
	}
	id := r.nextID()
	f, x, err := r.open(ctx, request{id: id, method: wire.MethodPoll,
		params: r.poll.params(map[string]any{"cursor": result.Cursor, "timeoutMs": 20_000})})
	if err != nil {
		return false, err
	}
	f.stop()
	for range 10 {
		all, _, _ := f.messages()
		if i := slices.IndexFunc(all, message.isResponse); i < 0 {
			pause(ctx, r.o.pace.settle/10)
		} else if m := all[i]; m.err != nil {
			return false, (&exchange{request: x.request, answer: m}).violation("no answer to a cancelled request", "error %d", m.err.Code)
		} else { // an answer that overtook the cancellation is a result; a cancelled request has none
			return true, nil
		}
	}
	return false, r.expectResult(ctx, wire.MethodList, nil, "the list")
}

// maxHoldTries is the maximum number of long polls to send until an event occurs while one is pending. If a type emits
// events continuously, the server may respond immediately.
const maxHoldTries = 5

// checkHeldAnswers sends a long poll, detects occurrences with parallel polls, and compares the events with the
// response.
func checkHeldAnswers(ctx context.Context, r *run) error {
	end := time.Now().Add(min(r.o.Wait, r.o.pace.call))
	for range maxHoldTries {
		if held, err := r.holdPoll(ctx, end); held || err != nil {
			return err
		}
	}
	return skipf("none of %d polls was held until something occurred", maxHoldTries)
}

// A heldAnswer is the response to a long poll.
type heldAnswer struct {
	x   *exchange
	err error
}

// holdPoll sends a long poll from the newest cursor and waits for an occurrence. It returns false if the response
// arrived before an event occurred, which is allowed. It also returns false if no parallel poll returned without events
// before the response, because the long poll may then never have been pending.
func (r *run) holdPoll(ctx context.Context, end time.Time) (held bool, err error) {
	_, result, err := r.pollSubject(ctx, r.poll, map[string]any{"cursor": nil})
	if err != nil {
		return false, err
	}
	if result.Cursor == nil {
		return false, skipf("a poll without a cursor returned none to hold a poll at")
	}
	ctx, cancel := context.WithCancel(ctx)
	answered := make(chan heldAnswer, 1)
	done := make(chan struct{})
	defer func() { cancel(); <-done }() // the call ends with ctx
	go func() {
		defer close(done)
		x, err := r.call(ctx, wire.MethodPoll, r.poll.params(map[string]any{"cursor": result.Cursor, "timeoutMs": 60_000}))
		answered <- heldAnswer{x, err}
	}()
	for waited := false; time.Now().Before(end) && ctx.Err() == nil; {
		x, page, err := r.pollQuietly(ctx, r.poll, map[string]any{"cursor": result.Cursor})
		switch {
		case err != nil && err != errLimited && x.answer.raw == nil:
			return false, x.violation("an answer to a poll next to a held one", "none")
		case err != nil || page.Truncated:
			return false, skipf("a poll next to it was not answered with a page, or was truncated")
		case len(page.Events) > 0:
			select {
			case got := <-answered:
				woken, err := r.compareHeld(ctx, got, *result.Cursor)
				return waited && woken, err
			case <-time.After(2 * maxHoldDelay):
				return false, x.violation("the answer to a poll that is held at the same cursor, since there is something to return", "none within %v of it",
					2*maxHoldDelay)
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		waited = waited || len(answered) == 0
		select {
		case got := <-answered:
			woken, err := r.compareHeld(ctx, got, *result.Cursor)
			return waited && woken, err
		case <-time.After(r.o.pace.poll):
		case <-ctx.Done():
		}
	}
	return false, skipf("nothing occurred while it was held")
}

// compareHeld compares the events of a long poll with those of normal polls from the same cursor. Events from polls
// that start at the cursor of its response also count as events of the long poll. woken reports whether the normal
// polls returned an event.
func (r *run) compareHeld(ctx context.Context, got heldAnswer, at string) (woken bool, err error) {
	var page polledPage
	if got.err != nil || got.x.result(&page) != nil || page.Cursor == nil || page.Truncated {
		return false, skipf("the poll that was held was not answered with a page that has a cursor, or is truncated") // the check of POLL-9 covers that
	}
	// The order matters because only the second poll can return events that occurred between the two.
	want := r.idsAfter(ctx, r.poll, at)
	then := r.idsAfter(ctx, r.poll, *page.Cursor)
	if want == nil || then == nil {
		return false, skipf("a poll after it was not answered with a page, or was truncated")
	}
	for _, o := range polledOccurrences(got.x) {
		then = append(then, o.eventID())
	}
	for _, id := range want {
		if !slices.Contains(then, id) {
			return true, got.x.violation(wire.Shown(id)+" in the answer or after its cursor, as polls have it after the cursor that it was held at", "neither")
		}
	}
	return len(want) > 0, nil
}
