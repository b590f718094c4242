package conform

import (
	"context"
	"slices"

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

// subscribedFromNow returns a check that a new subscription does not receive earlier events.
func subscribedFromNow(more map[string]any) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if len(r.hook.pollOccurrences()) == 0 && len(r.hook.streamOccurrences()) == 0 {
			return skipf("nothing of %s has come by polls or streams", r.hook.Name)
		}
		c, before := r.newCallback(echoes), r.knownIDs(r.hook)
		x, err := r.mustSubscribe(ctx, c, more)
		if err != nil {
			return err
		}
		if truncated, _ := boolMember(x, x.answer.result, "truncated"); truncated {
			return x.violation("truncated to be false without a cursor", "true")
		}
		present := r.catchUpPredicate(r.hook, before)
		c.await(ctx, 0, r.o.pace.maxLag, func(p post) bool { return isOccurrence(p) && present((occurrence{raw: p.body}).eventID()) })
		if _, err := r.unsubscribe(ctx, r.hook, c); err != nil {
			return err
		}
		for _, p := range c.receivedPosts() {
			if id := (occurrence{raw: p.body}).eventID(); isOccurrence(p) && before[id] {
				return p.exchange(x).violation("nothing from before the subscription", "%s, which had come before", wire.Shown(id))
			}
		}
		return nil
	}
}

// checkBeginsBehind subscribes with the first cursor. The callback must receive every event that polls return from it,
// including events during the call.
func checkBeginsBehind(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c := r.newCallback(echoes)
	x, err := r.mustSubscribe(ctx, c, map[string]any{"cursor": *s.first})
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
	_, err = r.unsubscribe(ctx, s, c)
	return err
}

func checkSubscribeMaxAge(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c, old := r.newCallback(echoes), list[0].aged(ctx)
	x, err := r.mustSubscribe(ctx, c, map[string]any{"cursor": *s.first, "maxAgeMs": 0})
	if err != nil {
		return err
	}
	truncated, _ := boolMember(x, x.answer.result, "truncated")
	pause(ctx, r.o.pace.settle)
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	for _, p := range c.receivedPosts() {
		if id := (occurrence{raw: p.body}).eventID(); isOccurrence(p) && id == old {
			return p.exchange(x).violation("older occurrences to be left out", "the occurrence %s", wire.Shown(id))
		}
	}
	if !truncated {
		return x.violation("truncated to be true", "false")
	}
	return nil
}

// checkRefreshAt refreshes a live subscription with a much older cursor.
func checkRefreshAt(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c, before := r.newCallback(echoes), list[0].eventID()
	x, err := r.mustSubscribe(ctx, c, nil)
	if err != nil {
		return err
	}
	if _, ok := c.await(ctx, 0, r.o.Wait, isOccurrence); !ok {
		return skipf("nothing was delivered within %v", r.o.Wait)
	}
	if x, err = r.mustSubscribe(ctx, c, map[string]any{"cursor": *s.first, "maxAgeMs": 3_600_000}); err != nil {
		return err
	}
	isOld := func(p post) bool { return isOccurrence(p) && (occurrence{raw: p.body}).eventID() == before }
	p, replayed := c.await(ctx, 0, r.o.pace.quiet, isOld)
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	if replayed {
		return p.exchange(x).violation("nothing from before the subscription: it is live, and its cursor is its own", "%s", wire.Shown(before))
	}
	return nil
}
