package conform

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var pollChecks = []check{
	{name: "poll-result", id: "POLL-2", title: "The result of a poll has all members", needs: needPoll, run: checkPollShape},
	{name: "poll-cursors", id: "CUR-3", title: "A type always returns cursors, or never", needs: needPoll, run: checkCursorsAlways},
	{name: "poll-max-events-zero", id: "POLL-4", title: "A maxEvents below 1 fails with InvalidParams",
		needs: needPoll, run: refusedParams(pollWay, "maxEvents", 0, -1, -1<<40, "x", "5", 1.5, true)},
	{name: "poll-max-events-large", id: "POLL-4", title: "A large maxEvents does not fail", needs: needPoll, run: acceptedParams("maxEvents", 1_000_000_000, int64(1)<<40)},
	{name: "poll-cursor-fresh", id: "CUR-4", title: "A new cursor is not truncated", needs: needPoll | needReplay, run: checkFresh},
	{name: "poll-has-more", id: "POLL-4", title: "A page after hasMore contains events", needs: needPoll | needReplay, run: checkMore},
	{name: "poll-escapes", id: "CAP-6", title: "The server decodes escaped letters in names of members", needs: needPoll, run: checkEscapes},
	{name: "poll-timeout", id: "POLL-9", title: "timeoutMs does not fail", needs: needPoll, run: acceptedParams("timeoutMs", 200)},
}

// pollSubject polls the subject and checks that the call succeeds.
func (r *run) pollSubject(ctx context.Context, s *subject, more map[string]any) (*exchange, wire.PollResult, error) {
	var result wire.PollResult
	x, err := r.call(ctx, wire.MethodPoll, s.params(more))
	if err == nil {
		err = x.result(&result)
	}
	return x, result, err
}

func checkPollShape(ctx context.Context, r *run) error {
	x, _, err := r.pollSubject(ctx, r.poll, map[string]any{"cursor": nil})
	if err != nil {
		return err
	}
	in := x.answer.result
	var list []json.RawMessage
	if raw := member(in, "events"); json.Unmarshal(raw, &list) != nil || list == nil {
		return x.violation("events to be an array", "%s", orNone(raw))
	}
	if _, err := stringOrNull(x, in, "cursor"); err != nil {
		return err
	}
	for _, name := range []string{"truncated", "hasMore"} {
		if _, err := boolMember(x, in, name); err != nil {
			return err
		}
	}
	var next int64
	if raw := member(in, "nextPollMs"); raw == nil || string(raw) == "null" || json.Unmarshal(raw, &next) != nil || next < 0 {
		return x.violation("nextPollMs to be an integer from 0", "%s", orNone(raw))
	}
	return nil
}

// checkFresh polls from the cursor of a poll, twice.
func checkFresh(ctx context.Context, r *run) error {
	var cursor *string
	for range 3 {
		x, result, err := r.pollSubject(ctx, r.poll, map[string]any{"cursor": cursor})
		if err != nil {
			return err
		}
		if result.Truncated {
			return x.violation("truncated to be false: the cursor was just given", "true")
		}
		cursor = result.Cursor
	}
	return nil
}

// checkEscapes polls with escapes that JSON permits (RFC 8259, section 7).
func checkEscapes(ctx context.Context, r *run) error {
	q := request{method: wire.MethodPoll, params: r.poll.params(map[string]any{"cursor": nil}), escapes: true}
	_, err := r.mustSend(ctx, q, "a result, as without escapes")
	return err
}

// maxEmptyPages is the maximum number of consecutive empty pages at the same cursor that have hasMore set.
const maxEmptyPages = 3

func checkMore(ctx context.Context, r *run) error {
	for i, s := range r.typesWith(wire.ModePoll) {
		if i == maxWatched {
			break
		}
		if err := r.moreOf(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) moreOf(ctx context.Context, s *subject) error {
	var cursor *string
	empty := 0
	for range 20 * maxEmptyPages { // a type that occurs all the time may always have more
		x, result, err := r.pollSubject(ctx, s, map[string]any{"cursor": cursor})
		if err != nil {
			return err
		}
		if !result.HasMore || result.Cursor == nil {
			return nil
		}
		if empty++; len(result.Events) > 0 || cursor == nil || *cursor != *result.Cursor {
			empty = 0
		}
		if cursor = result.Cursor; empty >= maxEmptyPages {
			return x.violation("hasMore to be false where there is nothing more", "true, with no occurrence and the same cursor, %d times", empty)
		}
	}
	return nil
}

func checkCursorsAlways(ctx context.Context, r *run) error {
	var before *exchange
	cursor := r.poll.first
	for range 6 {
		x, result, err := r.pollSubject(ctx, r.poll, map[string]any{"cursor": cursor})
		if err != nil {
			return err
		}
		if before != nil && (result.Cursor == nil) != (cursor == nil) {
			return x.violation("a cursor as in the answer before", "%s", orNone(member(x.answer.result, "cursor")))
		}
		before, cursor = x, result.Cursor
	}
	return nil
}

// refusedParams returns a check that the server rejects each value of a parameter with InvalidParams.
func refusedParams(w way, name string, values ...any) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		s := r.subject(w.needs)
		for _, v := range values {
			if err := w.expectRefused(ctx, r, wire.InvalidParams, nil, s.params(map[string]any{"cursor": s.first, name: v})); err != nil {
				return err
			}
		}
		return nil
	}
}

// acceptedParams returns a check that the server accepts each value of a parameter.
func acceptedParams(name string, values ...any) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, v := range values {
			params := r.poll.params(map[string]any{"cursor": r.poll.first, name: v})
			if err := r.expectResult(ctx, wire.MethodPoll, params, fmt.Sprintf("%s %v to be taken", name, v)); err != nil {
				return err
			}
		}
		return nil
	}
}
