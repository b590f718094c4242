package conform

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var subscribeChecks = []check{
	{name: "subscribe", id: "SUB-1", title: "events/subscribe creates a subscription",
		needs: needWebhook | needReceiver, run: checkSubscribe},
	{name: "challenge-first", id: "VER-2", title: "A signed challenge arrives before the subscription exists",
		needs: needHook, run: checkChallenge},
	{name: "challenge-id", id: "D12", title: "The challenge has the id that events/subscribe returns", needs: needHook, run: checkChallengeID},
	{name: "subscribe-no-status", id: "HOOK-8", title: "A new subscription has no deliveryStatus", needs: needHook, run: checkNoStatus},
	{name: "subscribe-anonymous", id: "SUB-2", title: "The server refuses a subscription without a principal",
		needs: needHook | needToken | needHTTP, run: checkAnonymous},
	{name: "subscribe-mode-missing", id: "SUB-1", title: "A missing delivery mode fails with InvalidParams", needs: needHook, run: deliveriesRefused(wire.InvalidParams, "mode", nil)},
	{name: "subscribe-mode", id: "SUB-1", title: "An unknown delivery mode fails with Unsupported", needs: needHook, run: deliveriesRefused(wire.Unsupported, "mode", "pigeon")},
	{name: "subscribe-url", id: "SUB-3", title: "A callback that is not an absolute https URL fails with InvalidParams", needs: needHook,
		run: deliveriesRefused(wire.InvalidParams, "url", "http://%s", "https://user:pass@%s", "/%s", "https://", "")},
	{name: "subscribe-url-fragment", id: "SUB-3", title: "A callback with a fragment fails with InvalidParams", needs: needHook, advice: true,
		run: deliveriesRefused(wire.InvalidParams, "url", "https://%s#fragment")},
	{name: "subscribe-secret", id: "SUB-3", title: "A malformed secret fails with InvalidParams", needs: needHook,
		run: deliveriesRefused(wire.InvalidParams, "secret", "", "secret", "%s", wire.SecretPrefix, wire.SecretPrefix+"dG9vIHNob3J0", wire.SecretPrefix+"!!!"+strings.Repeat("A", 40),
			wire.SecretPrefix+strings.Repeat("AAAA", 30))},
	{name: "challenge-created", id: "VER-2", title: "A response of 201 with the challenge verifies a callback", needs: needHook, run: checkCreated},
	{name: "key-same", id: "SUB-4", title: "The same key identifies the same subscription", needs: needHook, run: checkSameKey},
	{name: "key-arguments-absent", id: "SUB-4", title: "null and absent arguments are the same key as {}", needs: needHook, advice: true, run: checkSameAbsent},
	{name: "subscribe-challenge-cursor", id: "SUB-1", title: "A subscription without a cursor begins before its challenge", needs: needHook | needDelivered, run: checkBeginsBeforeChallenge},
	{name: "key-url", id: "SUB-4", title: "Another callback, or another spelling of it, is another subscription", needs: needHook, run: checkURLSpelling},
	{name: "grant-length", id: "SUB-6", title: "The granted lifetime exceeds neither the request nor the minimum, and none is refused", needs: needHook, run: checkGrants},
	{name: "refresh-grant", id: "SUB-5", title: "A refresh grants a new lifetime", needs: needHook, run: checkGrantAnew},
	{name: "unsubscribe-anonymous", id: "SUB-2", title: "A caller without a principal cannot end a subscription",
		needs: needHook | needToken | needHTTP, run: endedAs(request{omitsToken: true})},
	{name: "other-unsubscribe", id: "SUB-10", title: "Another caller can end only its own subscription", needs: needHook | needOther | needHTTP, run: endedAs(request{otherCaller: true})},
	{name: "other-key", id: "SUB-10", title: "Another caller with the same key has another subscription", needs: needHook | needOther | needHTTP, run: checkOtherCaller},
	{name: "other-challenge", id: "VER-3", title: "The server challenges a callback again for another caller", needs: needHook | needOther | needHTTP, run: checkOtherChallenge},
	{name: "grant-ttl", id: "SUB-6", title: "A ttlMs that is not an integer fails with InvalidParams", needs: needHook, run: refusedParams(subscribeWay, "ttlMs", "long", "60000", 1.5, true)},
	{name: "subscribe-replay", id: "SUB-1", title: "A subscription with a cursor receives every event after it", needs: needHook | needReplay, run: checkBeginsBehind},
	{name: "refresh-cursor", id: "SUB-5", title: "The cursor of a refresh does not change a live subscription", needs: needHook | needReplay | needDelivered, run: checkRefreshAt},
	{name: "subscribe-secret-sizes", id: "SUB-3", title: "The server accepts secrets of 24 and of 64 bytes", needs: needHook, run: checkSecretSizes},
	{name: "key-arguments", id: "SUB-4", title: "Other arguments are another subscription, and the order of members does not matter", needs: needHook, run: checkOtherArguments},
	{name: "key-arguments-delivery", id: "SUB-4", title: "Two subscriptions of one callback each receive their events", needs: needHook | needDelivered, run: checkTwoSubscriptions},
	{name: "refresh-status", id: "HOOK-8", title: "deliveryStatus of a refresh has its members", needs: needHook, run: checkStatus},
}

func checkSubscribe(ctx context.Context, r *run) error {
	// Prefer a type with occurrences, which allows more checks.
	for _, s := range r.typesWith(wire.ModeWebhook) {
		if len(s.pollOccurrences()) > 0 || len(s.streamOccurrences()) > 0 {
			r.hook = s
			break
		}
	}
	c, x, id, err := r.subscribeNew(ctx, nil)
	if r.bar(wire.ModeWebhook, x) {
		return x.refusal
	}
	if x.answer.raw != nil && x.answer.err == nil {
		r.mainSubscription = &subscription{of: r.hook, callback: c, made: x, id: id}
	}
	return err
}

func checkNoStatus(_ context.Context, r *run) error {
	if raw := member(r.mainSubscription.made.answer.result, "deliveryStatus"); raw != nil {
		return r.mainSubscription.made.violation("no deliveryStatus", "%s", wire.Shown(string(raw)))
	}
	return nil
}

func checkAnonymous(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	params := r.hook.params(map[string]any{"cursor": nil, "delivery": c.delivery()})
	x, err := r.send(ctx, request{method: wire.MethodSubscribe, params: params, omitsToken: true})
	if isBarred(x, err) {
		return nil
	}
	if err != nil {
		return err
	}
	if x.answer.err == nil {
		// The server has no owner for the subscription, or uses the principal of callers without a token.
		params["delivery"] = map[string]any{"mode": wire.ModeWebhook, "url": c.url}
		_, _ = r.send(ctx, request{method: wire.MethodUnsubscribe, params: params, omitsToken: true})
	}
	return r.expectError(x, wire.Forbidden)
}

// deliveriesRefused returns a check that the server rejects an events/subscribe request for each value of a member of
// its delivery. A value of nil omits the member. %s in a text is replaced with the valid value, without its prefix.
func deliveriesRefused(kind wire.Kind, name string, values ...any) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, value := range values {
			d := r.newCallback(echoes).delivery()
			good := strings.TrimPrefix(strings.TrimPrefix(d[name].(string), "https://"), wire.SecretPrefix)
			if text, ok := value.(string); ok {
				d[name] = strings.ReplaceAll(text, "%s", good)
			} else {
				delete(d, name)
			}
			if err := r.expectDeliveryRefused(ctx, kind, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// expectDeliveryRefused checks that the server rejects an events/subscribe request with an invalid delivery.
func (r *run) expectDeliveryRefused(ctx context.Context, kind wire.Kind, delivery map[string]any) error {
	params := r.hook.params(map[string]any{"cursor": nil, "delivery": delivery})
	r.recordKey(params)
	return r.expectCallError(ctx, wire.MethodSubscribe, params, kind)
}

func checkSecretSizes(ctx context.Context, r *run) error {
	for _, size := range []int{24, 64} {
		c := r.newCallback(echoes)
		r.setSecret(c, size)
		x, err := r.subscribe(ctx, r.hook, c, nil)
		if err != nil {
			return err
		}
		if err := x.refused(fmt.Sprintf("a secret of %d bytes to be taken", size)); err != nil {
			return err
		}
	}
	return nil
}
