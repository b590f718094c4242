package conform

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const needHook = needWebhook | needReceiver | needMain

var deliveryChecks = []check{
	{name: "delivery-body", id: "HOOK-1", title: "A delivery is a POST of JSON of at most 256 KiB",
		needs: needHook | needDelivered, run: eachDelivery(checkBody)},
	{name: "delivery-webhook-id", id: "D10", title: "The webhook-id of an occurrence is its eventId",
		needs: needHook | needDelivered, advice: true, run: eachDelivery(checkWebhookID)},
	{name: "rotation-signatures", id: "SUB-5", title: "After a rotation, the new and the old secret sign deliveries",
		needs: needHook | needDelivered, run: checkRotation},
}

var endChecks = []check{
	{name: "unsubscribe-unknown", id: "SUB-9", title: "Unsubscribing an unknown key fails with NotFound or returns {}",
		needs: needHook, run: checkUnknownKey},
	{name: "unsubscribe-url-missing", id: "SUB-9", title: "Unsubscribing without a URL fails with InvalidParams",
		needs: needHook, run: checkUnsubscribeForm},
	{name: "unsubscribe-other-key", id: "SUB-9", title: "Unsubscribing another key does not end the subscription", needs: needHook | needDelivered, run: checkOtherKeys},
	{name: "unsubscribe-subscribe", id: "SUB-9", title: "An ended key can be subscribed again", needs: needHook | needDelivered, run: checkEndedKey},
	{name: "unsubscribe-ends", id: "SUB-9", title: "Unsubscribing ends the subscription", needs: needHook, run: checkUnsubscribe},
	{name: "unsubscribe-retries", id: "SUB-9", title: "Unsubscribing ends pending retries", needs: needHook | needDelivered, run: checkUnsubscribeRefused},
}

func isOccurrence(p post) bool { return p.kind == "" }

// awaitDelivery waits for the first delivered occurrence. It waits only once per run.
func (r *run) awaitDelivery(ctx context.Context) bool {
	if r.hasDelivery == nil {
		_, ok := r.mainSubscription.callback.await(ctx, 0, r.o.Wait, isOccurrence)
		r.hasDelivery = &ok
	}
	return *r.hasDelivery
}

// eachDelivery returns a check that calls try for each delivered occurrence.
func eachDelivery(try func(*run, post) error) func(context.Context, *run) error {
	return func(_ context.Context, r *run) error {
		for _, p := range r.mainSubscription.callback.receivedPosts() {
			if isOccurrence(p) {
				if err := try(r, p); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func checkBody(r *run, p post) error {
	x := p.exchange(r.mainSubscription.made)
	if p.method != http.MethodPost {
		return x.violation("a POST", "%s", wire.Shown(p.method))
	}
	if kind, _, _ := mime.ParseMediaType(p.header.Get("Content-Type")); kind != "application/json" {
		return x.violation("application/json", "%s", wire.Shown(p.header.Get("Content-Type")))
	}
	if len(p.body) > wire.MaxBody {
		return x.violation("at most 256 KiB", "more")
	}
	return nil
}

func checkWebhookID(r *run, p post) error {
	id := (occurrence{raw: p.body}).eventID()
	if got := p.header.Get(wire.HeaderWebhookID); got != id {
		return p.exchange(r.mainSubscription.made).violation("webhook-id: "+id, "%s", wire.Shown(got))
	}
	return nil
}

func checkRotation(ctx context.Context, r *run) error {
	c := r.mainSubscription.callback
	old := c.secret
	r.rotate(c)
	x, err := r.mustSubscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	if id, _ := grantedID(x, false); id != r.mainSubscription.id {
		return x.violation("the id "+r.mainSubscription.id, "%s", wire.Shown(id))
	}
	answered := time.Now()
	p, ok := c.await(ctx, len(c.receivedPosts()), r.o.Wait, func(p post) bool {
		return isOccurrence(p) && r.signedAfter(p, x, answered)
	})
	if !ok {
		return skipf("nothing was delivered within %v", r.o.Wait)
	}
	from := p.exchange(x)
	if err := p.verify(c.secret); err != nil {
		return from.violation("a signature of the new secret", "%v", err)
	}
	if err := p.verify(old); err != nil {
		return from.violation("a signature of the old secret too, for a while", "%v", err)
	}
	return nil
}

// signedAfter reports whether a delivery was signed after the server sent the response in x. Deliveries in flight can
// arrive arbitrarily late. Both times are from the server's clock, in seconds.
func (r *run) signedAfter(p post, x *exchange, answered time.Time) bool {
	seconds, err := strconv.ParseInt(p.header.Get(wire.HeaderWebhookTimestamp), 10, 64)
	if err != nil || x.date.IsZero() {
		return p.at.Sub(answered) > r.o.pace.settle
	}
	return time.Unix(seconds, 0).After(x.date)
}

// expectGone checks that the response is NotFound or an empty result.
func (r *run) expectGone(x *exchange) error {
	if x.answer.err == nil {
		return expectEmpty(x)
	}
	return r.expectErrorData(x, wire.NotFound, map[string]any{"kind": "subscription"})
}

// expectEmpty checks that the result is a JSON object.
func expectEmpty(x *exchange) error {
	if len(x.answer.result) == 0 || !bytes.HasPrefix(bytes.TrimSpace(x.answer.result), []byte("{")) {
		return x.violation("an empty result", "%s", orNone(x.answer.result))
	}
	return nil
}

func checkUnknownKey(ctx context.Context, r *run) error {
	x, err := r.unsubscribe(ctx, r.hook, r.newCallback(echoes))
	if err != nil {
		return err
	}
	return r.expectGone(x)
}

func checkUnsubscribeForm(ctx context.Context, r *run) error {
	return r.expectCallError(ctx, wire.MethodUnsubscribe, map[string]any{"name": r.hook.Name, "delivery": map[string]any{}}, wire.InvalidParams)
}

// nextTick is long enough for two timestamps in whole seconds to differ.
const nextTick = 2100 * time.Millisecond

// checkUnsubscribe ends the main subscription without the mode, which is optional here.
func checkUnsubscribe(ctx context.Context, r *run) error {
	params := r.hook.params(map[string]any{"delivery": map[string]any{"url": r.mainSubscription.callback.url}})
	x, err := r.mustSend(ctx, request{method: wire.MethodUnsubscribe, params: params}, "an empty result")
	if err != nil {
		return err
	}
	if err := expectEmpty(x); err != nil {
		return err
	}
	from, answered := len(r.mainSubscription.callback.receivedPosts()), time.Now()
	if p, ok := r.mainSubscription.callback.await(ctx, from, max(r.o.pace.quiet, nextTick), func(p post) bool {
		return isOccurrence(p) && r.signedAfter(p, x, answered)
	}); ok {
		return p.exchange(x).violation("no delivery after the subscription has ended", "%s", p.summary())
	}
	again, err := r.unsubscribe(ctx, r.hook, r.mainSubscription.callback)
	if err != nil {
		return err
	}
	return r.expectGone(again)
}

// checkUnsubscribeRefused ends a subscription after its callback has rejected every delivery.
func checkUnsubscribeRefused(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	c.setDecide(func(string, int) (int, <-chan struct{}) { return http.StatusServiceUnavailable, nil })
	if _, err := r.mustSubscribe(ctx, r.hook, c, nil); err != nil {
		return err
	}
	_, came := c.await(ctx, 0, r.o.Wait, isOccurrence)
	x, err := r.unsubscribe(ctx, r.hook, c)
	if err != nil {
		return err
	}
	if err := x.refused("an empty result"); err != nil {
		return err
	}
	if !came {
		return skipf("nothing was delivered within %v", r.o.Wait)
	}
	wait := max(r.o.pace.quiet, nextTick)
	if r.retrial != nil {
		select {
		case <-r.retrial.done:
			wait = r.retrial.retryTime(r)
		case <-ctx.Done():
			return verdict.ErrRunEnded
		}
	}
	answered := time.Now()
	if p, ok := c.await(ctx, len(c.receivedPosts()), wait, func(p post) bool { return isOccurrence(p) && r.signedAfter(p, x, answered) }); ok {
		return p.exchange(x).violation("no attempt after the subscription has ended", "%s", p.summary())
	}
	return nil
}
