package conform

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// knownIDs returns the eventIds of a type that have been received so far in all modes.
func (r *run) knownIDs(s *subject) map[string]bool {
	ids := map[string]bool{}
	for _, o := range append(s.pollOccurrences(), s.streamOccurrences()...) {
		ids[o.eventID()] = true
	}
	return ids
}

// catchUpPredicate returns a function to call with each eventId that a new subscription receives. The function returns
// true once the subscription has caught up. By then, it has received an ID that was known before it began or that
// another mode has received since. Until then, the server may send old events that no mode has received.
func (r *run) catchUpPredicate(s *subject, before map[string]bool) func(id string) bool {
	var unseen []string
	return func(id string) bool {
		if before[id] {
			return true
		}
		unseen = append(unseen, id)
		now := r.knownIDs(s)
		return slices.ContainsFunc(unseen, func(id string) bool { return now[id] })
	}
}

// read begins the way at a type with the params, and returns the first response and the occurrences. It reads until done
// returns true for an eventId, at most the given time, and then ends the stream or subscription.
func (w way) read(ctx context.Context, r *run, s *subject, params map[string]any, most time.Duration, done func(id string) bool) (*exchange, []occurrence, error) {
	switch w.mode {
	case wire.ModePoll:
		x, _, err := r.pollSubject(ctx, s, params)
		return x, polledOccurrences(x), err
	case wire.ModePush:
		return r.readStream(ctx, s, params, most, done)
	}
	c := r.newCallback(echoes)
	x, err := r.mustSubscribe(ctx, s, c, params)
	if err != nil {
		return x, nil, err
	}
	c.await(ctx, 0, most, func(p post) bool { return isOccurrence(p) && done((occurrence{raw: p.body}).eventID()) })
	r.endOpened(ctx)
	return x, c.occurrences(x), nil
}

// polledOccurrences returns the occurrences in the response to a poll.
func polledOccurrences(x *exchange) (list []occurrence) {
	var events []json.RawMessage
	_ = json.Unmarshal(member(x.answer.result, "events"), &events)
	for _, raw := range events {
		list = append(list, occurrence{raw, x})
	}
	return list
}

// readStream is read for a stream.
func (r *run) readStream(ctx context.Context, s *subject, params map[string]any, most time.Duration, done func(id string) bool) (*exchange, []occurrence, error) {
	f, x, err := r.openActive(ctx, s, params)
	if err != nil {
		return x, nil, err
	}
	defer f.stop()
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	f.await(waiting, func(m message) bool {
		return m.method == wire.NotificationEvent && done((occurrence{raw: m.params}).eventID())
	})
	return x, f.occurrences(x.request), nil
}

// checkFromNow begins without a cursor, which must not return events that had come before.
func checkFromNow(more map[string]any) func(context.Context, *run, way, *draw.Source) error {
	return func(ctx context.Context, r *run, w way, d *draw.Source) error {
		s := r.subject(w.needs)
		before := r.knownIDs(s)
		if len(before) == 0 {
			return skipf("nothing of %s has come by polls or streams", s.Name)
		}
		params := draw.Pick(d, []map[string]any{{}, {"cursor": nil}})
		maps.Copy(params, more)
		most := r.o.pace.settle // a stream replays at once
		if w.mode == wire.ModeWebhook {
			most = r.o.pace.maxLag
		}
		x, list, err := w.read(ctx, r, s, params, most, r.catchUpPredicate(s, before))
		if err != nil {
			return err
		}
		if truncated, _ := boolMember(x, x.members(), "truncated"); truncated {
			return x.violation("truncated to be false without a cursor", "true")
		}
		for _, o := range list {
			if before[o.eventID()] {
				return o.violation("no history without a cursor", "%s, which had come before", wire.Shown(o.eventID()))
			}
		}
		return nil
	}
}

// earliest returns an early cursor of a type and the first occurrence after it, from the watched stream if the mode is
// push, and otherwise from polls.
func (r *run) earliest(ctx context.Context, s *subject, mode string) (cursor string, o occurrence, err error) {
	if mode != wire.ModePush {
		if list := r.awaitPolled(ctx, s); len(list) > 0 && s.first != nil {
			return *s.first, list[0], nil
		}
		return "", o, skipf("nothing of %s has come by polls with cursors", s.Name)
	}
	list := s.streamOccurrences()
	if len(list) == 0 {
		return "", o, skipf("nothing of %s has come by streams", s.Name)
	}
	kept := mustMessages(s.stream)
	if kept[0].method != wire.NotificationActive {
		return "", o, skipf("the watched stream did not begin with active")
	}
	from := (occurrence{raw: kept[0].params}).cursor()
	if from == nil {
		return "", o, skipf("%s has no replay: its cursors are null", s.Name)
	}
	return *from, list[0], nil
}

// checkMaxAge begins at an early cursor with a maxAgeMs that excludes the first occurrence after it, and then with a
// maxAgeMs that excludes nothing.
func checkMaxAge(ctx context.Context, r *run, w way, _ *draw.Source) error {
	s := r.subject(w.needs)
	cursor, o, err := r.earliest(ctx, s, w.mode)
	if err != nil {
		return err
	}
	old := o.aged(ctx)
	found := func(id string) bool { return id == old }
	x, list, err := w.read(ctx, r, s, map[string]any{"cursor": cursor, "maxAgeMs": 0}, r.o.pace.settle, found)
	if err != nil {
		return err
	}
	for _, o := range list {
		if o.eventID() == old {
			return o.violation("older occurrences to be left out", "the occurrence %s", wire.Shown(old))
		}
	}
	if truncated, _ := boolMember(x, x.members(), "truncated"); !truncated {
		return x.violation("truncated to be true", "false")
	}
	if o.time().IsZero() {
		return nil // another check reports this
	}
	age := max(time.Since(o.time()), 0) + maxClockSkew
	x, _, err = w.read(ctx, r, s, map[string]any{"cursor": cursor, "maxAgeMs": age.Milliseconds()}, 0, found)
	if err != nil {
		return err
	}
	return r.expectKept(ctx, s, cursor, x, x.members())
}

// checkBeginsBehind subscribes with the first cursor. The callback must receive every event that polls return from it,
// including events during the call.
func checkBeginsBehind(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c, x, _, err := r.subscribeNew(ctx, map[string]any{"cursor": *s.first})
	if err != nil {
		return err
	}
	delivered := slices.Clone(c.receivedPosts())
	if err := r.expectKept(ctx, s, *s.first, x, x.answer.result); err != nil {
		return err
	}
	at := resultCursor(x)
	if at == nil {
		return x.violation("a cursor, since one was given", "null")
	}
	led, known := r.idsAfter(ctx, s, *at), r.idsAfter(ctx, s, *s.first)
	if known == nil {
		return skipf("polls from the cursor failed, or were truncated")
	}
	for _, id := range known {
		is := func(p post) bool { return isOccurrence(p) && (occurrence{raw: p.body}).eventID() == id }
		if _, came := c.await(ctx, 0, r.o.Wait, is); !came {
			return x.violation("the delivery of "+wire.Shown(id)+", which came after the cursor", "%d other requests", len(c.receivedPosts()))
		}
		listed := slices.ContainsFunc(list, func(o occurrence) bool { return o.eventID() == id })
		if led != nil && listed && !slices.ContainsFunc(delivered, is) && !slices.Contains(led, id) {
			return x.violation("a cursor that leads to "+wire.Shown(id)+", which had not been delivered", "%s", first(led))
		}
	}
	return nil
}

// checkBeginsBeforeChallenge withholds the answer to a challenge until another callback has received a new event.
func checkBeginsBeforeChallenge(ctx context.Context, r *run) error {
	main := r.mainSubscription.callback
	c := r.newCallback(echoes)
	answer := make(chan struct{})
	c.withhold = answer
	found := make(chan string, 1)
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(answer)
		defer close(found)
		if _, ok := c.await(calling, 0, r.o.pace.call, isChallenge); !ok {
			return
		}
		pause(ctx, r.o.pace.settle) // deliveries in flight
		isNew := func(p post) bool {
			return isOccurrence(p) && len(main.postsOf((occurrence{raw: p.body}).eventID())) == 1
		}
		if p, ok := main.await(ctx, len(main.receivedPosts()), r.o.pace.hang-2*r.o.pace.settle, isNew); ok {
			found <- (occurrence{raw: p.body}).eventID()
		}
	}()
	x, err := r.mustSubscribe(ctx, r.hook, c, nil)
	cancel()
	id, ok := <-found
	if err != nil {
		return err
	}
	if !ok {
		return skipf("nothing occurred during a challenge")
	}
	if _, came := c.await(ctx, 0, r.o.pace.maxLag, func(p post) bool { return (occurrence{raw: p.body}).eventID() == id }); !came && ctx.Err() == nil {
		return x.violation("the delivery of "+wire.Shown(id)+", which occurred after the request and before the answer to the challenge", "nothing of it within %v", r.o.pace.maxLag)
	}
	return nil
}

// checkRefreshAt refreshes a live subscription with a much older cursor.
func checkRefreshAt(ctx context.Context, r *run) error {
	s := r.hook
	cursor, old, err := r.earliest(ctx, s, wire.ModeWebhook)
	if err != nil {
		return err
	}
	c, _, _, err := r.subscribeNew(ctx, nil)
	if err != nil {
		return err
	}
	if _, ok := c.await(ctx, 0, r.o.Wait, isOccurrence); !ok {
		return skipf("nothing was delivered within %v", r.o.Wait)
	}
	x, err := r.mustSubscribe(ctx, s, c, map[string]any{"cursor": cursor, "maxAgeMs": 3_600_000})
	if err != nil {
		return err
	}
	isOld := func(p post) bool { return isOccurrence(p) && (occurrence{raw: p.body}).eventID() == old.eventID() }
	p, replayed := c.await(ctx, 0, r.o.pace.quiet, isOld)
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	if replayed {
		return p.exchange(x).violation("nothing from before the subscription: it is live, and its cursor is its own", "%s", wire.Shown(old.eventID()))
	}
	return nil
}
