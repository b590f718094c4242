package conform

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// expectSameEvents checks that a callback with the same subscription as the main one receives the same events from now
// on. If not, it returns a violation with the expected behavior and the exchange x.
func (r *run) expectSameEvents(ctx context.Context, c *callback, x *exchange, expected string) error {
	main := r.mainSubscription.callback
	pause(ctx, r.o.pace.settle) // let deliveries in flight arrive
	from, answered := len(main.receivedPosts()), time.Now()
	p, ok := main.await(ctx, from, r.o.Wait, func(p post) bool { return isOccurrence(p) && r.signedAfter(p, x, answered) })
	if !ok {
		return skipf("nothing more was delivered to the first callback within %v", r.o.Wait)
	}
	id := (occurrence{raw: p.body}).eventID()
	if _, ok := c.await(ctx, 0, r.o.Wait, func(p post) bool { return isOccurrence(p) && (occurrence{raw: p.body}).eventID() == id }); !ok && ctx.Err() == nil {
		return x.violation(expected+", such as "+wire.Shown(id)+", which another callback got", "nothing of it within %v", r.o.Wait)
	}
	return nil
}

// checkOtherKeys tries to end nonexistent subscriptions that differ from an existing one only in their arguments or
// event type.
func checkOtherKeys(ctx context.Context, r *run) error {
	c, x, _, err := r.subscribeNew(ctx, nil)
	if err != nil {
		return err
	}
	others := []map[string]any{{"name": r.hook.Name, "arguments": map[string]any{"mcpeGenConform": "never subscribed"}}}
	for _, s := range r.types {
		if s != r.hook {
			others = append(others, map[string]any{"name": s.Name, "arguments": r.hook.args})
			break
		}
	}
	for _, other := range others {
		other["delivery"] = map[string]any{"mode": wire.ModeWebhook, "url": c.url}
		if x, err = r.call(ctx, wire.MethodUnsubscribe, other); err != nil {
			return err
		}
	}
	return r.expectSameEvents(ctx, c, x, "the deliveries of a subscription with another name or other arguments to go on")
}

// checkEndedKey subscribes a callback, ends the subscription and subscribes again, as a client does after a restart.
func checkEndedKey(ctx context.Context, r *run) error {
	c, _, _, err := r.subscribeNew(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := r.unsubscribe(ctx, r.hook, c); err != nil {
		return err
	}
	r.rotate(c)
	x, err := r.subscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	if isKind(x, wire.ResourceExhausted) {
		return skipf("the server takes no more subscriptions, or challenges, of this caller for now")
	}
	if _, err := grantedID(x, false); err != nil {
		return err
	}
	return r.expectSameEvents(ctx, c, x, "deliveries to a callback that was unsubscribed and is subscribed")
}
