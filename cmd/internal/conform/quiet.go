package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// quietChecks examine how arguments select events.
var quietChecks = []check{
	{name: "poll-cursor-quiet", id: "CUR-4", title: "The cursor of a poll passes events that its arguments exclude", needs: needPoll | needOccurred | needReplay | needQuiet, run: checkQuietPoll},
	{name: "heartbeat-cursor-quiet", id: "PUSH-4", title: "The cursor of a heartbeat passes events that the arguments of its stream exclude",
		needs: needPoll | needOccurred | needReplay | needQuiet, run: checkQuietHeartbeat},
	{name: "held-from-now", id: "POLL-9", title: "The server does not hold a poll without a cursor", needs: needPoll | needReplay | needQuiet, run: checkNullHeld},
	{name: "modes-arguments", id: "POLL-7", title: "The same arguments select the same events in all modes", needs: needPoll | needOccurred | needReplay, run: checkSameSelection},
}

// A quiet follows an event type with arguments that exclude its events. Its results are final once done is closed.
type quiet struct {
	done    chan struct{}
	failure string // why the results are missing
	args    json.RawMessage
	// excluded is the eventId of an event that the arguments exclude.
	excluded string
	// polled and beat are a poll and a heartbeat, and the eventIds that polls with other arguments return from the cursor
	// of each. They are nil without one.
	polled, beat           *exchange
	afterPolled, afterBeat []string
}

// beginQuiet starts to follow the type under test for polls.
func (r *run) beginQuiet(ctx context.Context, work *sync.WaitGroup) {
	q := &quiet{done: make(chan struct{})}
	r.quiet = q
	s := r.poll
	work.Go(func() {
		defer close(q.done)
		q.run(ctx, r, s)
	})
}

func (q *quiet) run(ctx context.Context, r *run, s *subject) {
	first, o, err := r.earliest(ctx, s, wire.ModePoll)
	if err != nil {
		q.failure = err.Error()
		return
	}
	q.excluded = o.eventID()
	for _, args := range s.variants {
		x, page, err := r.pollQuietly(ctx, s, map[string]any{"cursor": first, "arguments": args})
		if err == nil && len(page.Events) == 0 && page.Cursor != nil && !page.Truncated && !page.HasMore {
			q.args, q.polled, q.afterPolled = args, x, r.idsAfter(ctx, s, *page.Cursor)
			break
		}
	}
	if q.args == nil {
		q.failure = "no arguments of " + s.Name + " are known to exclude its events"
		return
	}
	f, x, ok := r.streamQuietly(ctx, s.params(map[string]any{"cursor": first, "arguments": q.args}))
	if !ok {
		return
	}
	defer f.stop()
	waiting, cancel := context.WithTimeout(ctx, r.o.pace.heartbeat)
	defer cancel()
	if m, ok := f.await(waiting, func(m message) bool { return m.method == wire.NotificationHeartbeat }); ok {
		q.beat = &exchange{request: x.request, answer: m}
		if at := (occurrence{raw: m.params}).cursor(); at != nil {
			q.afterBeat = r.idsAfter(ctx, s, *at)
		}
	}
}

// awaitQuiet waits for the results of quiet.
func (r *run) awaitQuiet(ctx context.Context) (*quiet, error) {
	select {
	case <-r.quiet.done:
	case <-ctx.Done():
		return nil, verdict.ErrRunEnded
	}
	if r.quiet.failure != "" {
		return nil, verdict.Skipped(r.quiet.failure)
	}
	return r.quiet, nil
}

func checkQuietPoll(ctx context.Context, r *run) error {
	q, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}
	return q.expectPassed(q.polled, q.afterPolled)
}

func checkQuietHeartbeat(ctx context.Context, r *run) error {
	q, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}
	if q.beat == nil {
		return skipf("no stream with these arguments had a heartbeat")
	}
	return q.expectPassed(q.beat, q.afterBeat)
}

// expectPassed checks that the cursor in x is past the excluded event. after holds the eventIds after that cursor.
func (q *quiet) expectPassed(x *exchange, after []string) error {
	if slices.Contains(after, q.excluded) {
		return x.violation("a cursor past "+wire.Shown(q.excluded)+", which the arguments exclude", "one before it")
	}
	return nil
}

// selections is the number of arguments with which checkSameSelection compares the modes.
const selections = 3

// checkSameSelection begins at an early cursor in each mode, with the arguments of the run and with others. The events that
// both polls and the mode have without the others must be selected by both or by none of them.
func checkSameSelection(ctx context.Context, r *run) error {
	s, tried := r.poll, false
	cursor, _, err := r.earliest(ctx, s, wire.ModePoll)
	if err != nil {
		return err
	}
	for _, w := range []way{streamWay, subscribeWay} {
		if !s.has(w.mode) || w.mode == wire.ModeWebhook && r.mainSubscription == nil {
			continue
		}
		known := r.idsAfter(ctx, s, cursor)
		_, list, _ := w.readUntil(ctx, r, s, map[string]any{"cursor": cursor}, known)
		common := slices.DeleteFunc(known, func(id string) bool { return !hasEvent(list, id) })
		for _, args := range draw.Some(r.draw.For("modes-arguments"), selections, s.variants) {
			params := map[string]any{"cursor": cursor, "arguments": args}
			_, page, selected, err := r.pollIDs(ctx, &cursor, params)
			if err != nil {
				return err
			}
			selected = slices.DeleteFunc(selected, func(id string) bool { return !slices.Contains(common, id) })
			x, list, err := w.readUntil(ctx, r, s, params, selected)
			if err != nil || page.HasMore {
				continue // another check reports an error
			}
			if truncated, _ := boolMember(x, x.members(), "truncated"); truncated {
				return errForgotten
			}
			tried = tried || len(common) > 0
			for _, id := range common {
				if by, polled := hasEvent(list, id), slices.Contains(selected, id); by != polled && ctx.Err() == nil {
					return x.violation(fmt.Sprintf("%s by both polls and this mode with these arguments, or by none", wire.Shown(id)), "by polls: %v, by this mode: %v", polled, by)
				}
			}
		}
	}
	if !tried {
		return skipf("no other arguments, or no other mode, of %s are known", s.Name)
	}
	return nil
}

func hasEvent(list []occurrence, id string) bool {
	return slices.ContainsFunc(list, func(o occurrence) bool { return o.eventID() == id })
}

// readUntil reads a way until it has the wanted events. If none are wanted, it reads for a while.
func (w way) readUntil(ctx context.Context, r *run, s *subject, params map[string]any, wanted []string) (*exchange, []occurrence, error) {
	left, most := slices.Clone(wanted), r.o.pace.settle
	if len(left) > 0 {
		most = r.o.pace.maxLag
	}
	return w.read(ctx, r, s, params, most, func(id string) bool {
		left = slices.DeleteFunc(left, func(one string) bool { return one == id })
		return len(wanted) > 0 && len(left) == 0
	})
}
