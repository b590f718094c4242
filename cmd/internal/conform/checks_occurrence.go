package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var occurrenceChecks = []check{
	{name: "poll-once", id: "OCC-2", title: "Polls return an occurrence once", needs: needPoll | needOccurred, run: polled.checkOnce},
	{name: "poll-repeat", id: "POLL-3", title: "A cursor returns the same result again",
		needs: needPoll | needOccurred | needReplay, run: checkAgain},
	{name: "poll-max-events", id: "POLL-4", title: "Pages of every size return the same events, and hasMore leads to the rest",
		needs: needPoll | needOccurred | needReplay, run: checkPageSizes},
	{name: "stream-once", id: "PUSH-3", title: "A stream sends an occurrence once", needs: needPush | needOccurred, run: pushed.checkOnce},
	{name: "stream-own", id: "PUSH-9", title: "A stream sends only events of its subscription", needs: needPush | needOccurred, run: checkOwn},
	{name: "stream-replay", id: "PUSH-1", title: "A stream replays the events after its cursor, after active",
		needs: needPush | needOccurred, run: checkReplay},
}

// A source is a mode in which a run receives occurrences.
type source struct {
	prefix, noun string // of the names and the titles of its checks
	needs        need
	of           func(*run) (*subject, []occurrence)
	// cursorID is the requirement of the cursor of an occurrence, and cursor checks it.
	cursorID string
	cursor   func(*subject, occurrence) error
}

var (
	polled = source{"poll", "a poll", needPoll | needOccurred,
		func(r *run) (*subject, []occurrence) { return r.poll, r.poll.pollOccurrences() }, "OCC-3", withoutCursor}
	pushed = source{"stream", "a stream", needPush | needOccurred,
		func(r *run) (*subject, []occurrence) { return r.push, r.push.streamOccurrences() }, "PUSH-3", withCursor}
	delivered = source{"delivery", "a delivery", needHook | needDelivered,
		func(r *run) (*subject, []occurrence) {
			return r.hook, r.mainSubscription.callback.occurrences(r.mainSubscription.made)
		}, "HOOK-6", withCursor}
)

// checks returns the checks that every source has.
func (f source) checks() []check {
	of := func(name, id, title string, try func(*subject, occurrence) error) check {
		return check{name: f.prefix + "-" + name, id: id, title: "An occurrence in " + f.noun + " " + title, needs: f.needs, advice: name == "timestamp",
			run: func(_ context.Context, r *run) error {
				s, list := f.of(r)
				for _, o := range list {
					if err := try(s, o); err != nil {
						return err
					}
				}
				return nil
			}}
	}
	return []check{
		of("occurrence", "OCC-1", "has its members", wellFormed),
		of("event-id", "OCC-2", "has an eventId that fits into a header", fitsHeader),
		of("timestamp", "OCC-1", "is not in the future", notAhead),
		of("data", "OCC-4", "has data that is valid against payloadSchema", validData),
		of("cursor", f.cursorID, "has a cursor as its mode has one", f.cursor),
	}
}

// checkOnce checks that no eventId comes twice.
func (f source) checkOnce(_ context.Context, r *run) error {
	seen := map[string]bool{}
	_, list := f.of(r)
	for _, o := range list {
		if id := o.eventID(); seen[id] {
			return o.violation("each occurrence once", "%s again", wire.Shown(id))
		}
		seen[o.eventID()] = true
	}
	return nil
}

func wellFormed(s *subject, o occurrence) error {
	if o.eventID() == "" {
		return o.violation("an eventId, a string", "%s", orNone(member(o.raw, "eventId")))
	}
	var name, at string
	if json.Unmarshal(member(o.raw, "name"), &name) != nil || name != s.Name {
		return o.violation("the name "+s.Name, "%s", orNone(member(o.raw, "name")))
	}
	if json.Unmarshal(member(o.raw, "timestamp"), &at) != nil {
		return o.violation("a timestamp, a string", "%s", orNone(member(o.raw, "timestamp")))
	}
	if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
		return o.violation("a timestamp of RFC 3339 with a zone", "%s", wire.Shown(at))
	}
	if data := member(o.raw, "data"); len(data) == 0 || data[0] != '{' {
		return o.violation("data that is an object", "%s", orNone(data))
	}
	return nil
}

// maxClockSkew is the maximum difference between the server's clock and this machine's.
const maxClockSkew = time.Hour

func notAhead(_ *subject, o occurrence) error {
	if at := o.time(); at.After(time.Now().Add(maxClockSkew)) {
		return o.violation("a timestamp that is not ahead by more than an hour", "%s", at.Format(time.RFC3339))
	}
	return nil
}

func fitsHeader(_ *subject, o occurrence) error {
	if wire.CheckEventID(o.eventID()) != nil {
		return o.violation("an eventId of 1 to 256 bytes of visible ASCII", "%s", orNone(member(o.raw, "eventId")))
	}
	return nil
}

func withoutCursor(_ *subject, o occurrence) error {
	if raw := member(o.raw, "cursor"); raw != nil {
		return o.violation("no cursor of its own", "%s", wire.Shown(string(raw)))
	}
	return nil
}

func withCursor(_ *subject, o occurrence) error {
	_, err := stringOrNull(o.from, o.raw, "cursor")
	return err
}

func validData(s *subject, o occurrence) error {
	payload := s.payload()
	if payload == nil {
		return skipf("the payloadSchema of %s cannot be used", s.Name)
	}
	if err := payload.Validate(member(o.raw, "data")); err != nil {
		return o.violation("data that is valid under payloadSchema", "%v", err)
	}
	return nil
}

// pollIDs polls from the cursor and returns the eventIds in the result.
func (r *run) pollIDs(ctx context.Context, cursor *string, more map[string]any) (*exchange, wire.PollResult, []string,
	error) {
	params := map[string]any{"cursor": cursor}
	maps.Copy(params, more)
	x, result, err := r.pollSubject(ctx, r.poll, params)
	if _, young := params["maxAgeMs"]; err == nil && result.Truncated && !young {
		err = errForgotten
	}
	var ids []string
	for _, e := range result.Events {
		ids = append(ids, e.EventID)
	}
	return x, result, ids, err
}

func checkAgain(ctx context.Context, r *run) error {
	want := r.poll.pollOccurrences()[0].eventID()
	for range 2 {
		x, result, ids, err := r.pollIDs(ctx, r.poll.first, nil)
		if err != nil {
			return err
		}
		if len(ids) == 0 || ids[0] != want {
			return x.violation("the occurrence "+want+" again", "%s", first(ids))
		}
		// The server need not remember that a client has passed this cursor.
		if _, _, _, err := r.pollIDs(ctx, result.Cursor, nil); err != nil {
			return err
		}
	}
	return nil
}

func first(ids []string) string {
	if len(ids) == 0 {
		return "no occurrence"
	}
	return "the occurrence " + wire.Shown(ids[0])
}

// checkPageSizes reads what one page has returned again, in pages of several sizes. It repeats that with other arguments,
// which select some of the events.
func checkPageSizes(ctx context.Context, r *run) error {
	arguments := []any{r.poll.args}
	if r.poll.otherArgs != nil {
		arguments = append(arguments, r.poll.otherArgs)
	}
	for _, args := range arguments {
		_, _, want, err := r.pollIDs(ctx, r.poll.first, map[string]any{"arguments": args})
		if err != nil {
			return err
		}
		n := min(len(want), witnessed)
		for _, size := range []int{1, 2, 3, max(n-1, 1), n + 1} {
			if err := r.readPages(ctx, args, size, want[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPages polls in pages of a size while hasMore is true, and checks that they begin with the wanted eventIds.
func (r *run) readPages(ctx context.Context, args any, size int, want []string) error {
	cursor := r.poll.first
	for range maxWitnessed {
		x, result, ids, err := r.pollIDs(ctx, cursor, map[string]any{"arguments": args, "maxEvents": size})
		if err != nil {
			return err
		}
		if len(ids) > size {
			return x.violation(fmt.Sprintf("at most %d occurrences", size), "%d", len(ids))
		}
		for len(ids) > 0 && len(want) > 0 {
			if ids[0] != want[0] {
				return x.violation("the occurrence "+wire.Shown(want[0]), "%s", first(ids))
			}
			ids, want = ids[1:], want[1:]
		}
		if cursor = result.Cursor; len(want) == 0 || cursor == nil {
			return nil
		}
		if !result.HasMore {
			return x.violation("hasMore to be true, since "+wire.Shown(want[0])+" follows", "false")
		}
	}
	return nil
}

// minAge is how old an occurrence must be to be older than any maxAgeMs, on clocks that differ by a second or two.
const minAge = 3 * time.Second

// aged waits until the occurrence is old, and returns its eventId.
func (o occurrence) aged(ctx context.Context) string {
	pause(ctx, min(time.Until(o.time().Add(minAge)), minAge))
	return o.eventID()
}

func checkOwn(_ context.Context, r *run) error {
	kept := mustMessages(r.push.stream)
	var id json.RawMessage
	for _, m := range kept {
		x := &exchange{request: r.push.opened, answer: m}
		if m.isResponse() {
			continue
		}
		if !strings.HasPrefix(m.method, wire.NotificationPrefix) {
			return x.violation("notifications/events/* only", "%s", wire.Shown(m.method))
		}
		if id == nil {
			id = m.subscription()
		}
		if string(m.subscription()) != string(id) {
			return x.violation(fmt.Sprintf("the subscription id %s", orNone(id)), "%s", orNone(m.subscription()))
		}
		if m.method == wire.NotificationEvent && string(member(m.params, "name")) != string(verdict.Encode(r.push.Name)) {
			return x.violation("events of "+r.push.Name, "%s", orNone(member(m.params, "name")))
		}
	}
	return nil
}

// expectFirst opens a stream at the cursor and checks that the given occurrence is the first to arrive.
func (r *run) expectFirst(ctx context.Context, cursor, id string) (*exchange, error) {
	x, list, err := r.readStream(ctx, r.push, map[string]any{"cursor": cursor}, r.o.pace.call/2, func(string) bool { return true })
	if err == nil {
		err = r.expectKept(ctx, r.push, cursor, x, x.answer.params)
	}
	switch {
	case err != nil:
		return x, err
	case len(list) == 0:
		return x, x.violation("the occurrence "+id, "none")
	case list[0].eventID() != id:
		return x, list[0].violation("the occurrence "+id+" first", "%s", wire.Shown(list[0].eventID()))
	}
	return x, nil
}

// expectKept skips the check if the server no longer retains the events after a cursor, and says so by truncated in
// the members of x. It returns a violation if a poll from the cursor is not truncated.
func (r *run) expectKept(ctx context.Context, s *subject, cursor string, x *exchange, members json.RawMessage) error {
	if truncated, _ := boolMember(x, members, "truncated"); !truncated {
		return nil
	}
	if s.has(wire.ModePoll) {
		if _, page, err := r.pollQuietly(ctx, s, map[string]any{"cursor": cursor, "maxEvents": 1}); err == nil && !page.Truncated {
			return x.violation("truncated to be false, as in a poll from this cursor", "true")
		}
	}
	return errForgotten
}

func checkReplay(ctx context.Context, r *run) error {
	from, o, err := r.earliest(ctx, r.push, wire.ModePush)
	if err != nil {
		return err
	}
	id := o.eventID()
	x, err := r.expectFirst(ctx, from, id)
	if err != nil {
		return err
	}
	// The cursor in the active notification is never ahead of events that the stream has yet to replay.
	at := (occurrence{raw: x.answer.params}).cursor()
	if at == nil {
		return x.violation("a cursor", "null")
	}
	_, err = r.expectFirst(ctx, *at, id)
	return err
}
