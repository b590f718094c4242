package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var subscribeChecks = []check{
	{id: "SUB-1", title: "events/subscribe makes a subscription",
		needs: needWebhook | needReceiver, run: checkSubscribe},
	{id: "VER-2", title: "a signed challenge comes before the subscription is made",
		needs: needHook, run: checkChallenge},
	{id: "D12", title: "the challenge carries the id that the call returns", needs: needHook, run: checkChallengeID},
	{id: "HOOK-8", title: "a first subscription has no deliveryStatus", needs: needHook, run: checkNoStatus},
	{id: "SUB-2", title: "a caller without a principal is refused",
		needs: needHook | needToken | needHTTP, run: checkAnonymous},
	{id: "SUB-1", title: "a missing delivery mode is InvalidParams, another one Unsupported",
		needs: needHook, run: checkDeliveryMode},
	{id: "SUB-1", title: "a subscription without a name is InvalidParams",
		needs: needHook, run: checkUnnamedSubscription},
	{id: "SUB-1", title: "a subscription to an unknown event type is NotFound",
		needs: needHook, run: checkUnknownSubscription},
	{id: "SUB-1", title: "a subscription with arguments that do not fit is InvalidParams",
		needs: needHook, run: checkUnfitSubscription},
	{id: "LIST-3", title: "a subscription to a type without webhook is Unsupported",
		needs: needHook, run: checkWithoutWebhook},
	{id: "SUB-3", title: "a callback that is not an absolute https URL is InvalidParams", needs: needHook, run: checkURLs},
	{id: "SUB-3", title: "a callback with a fragment is InvalidParams", needs: needHook, advice: true, run: checkFragment},
	{id: "SUB-3", title: "a malformed secret is InvalidParams", needs: needHook, run: checkSecrets},
	{id: "VER-2", title: "201 with the challenge is an answer to it", needs: needHook, run: checkCreated},
	{id: "SUB-4", title: "the same key is the same subscription", needs: needHook, run: checkSameKey},
	{id: "SUB-4", title: "null and absent arguments are the same key as {}", needs: needHook, advice: true, run: checkSameAbsent},
	{id: "SUB-4", title: "another callback is another subscription", needs: needHook, run: checkOtherKey},
	{id: "CUR-2", title: "a subscription without a cursor starts from now", needs: needHook, run: subscribedFromNow(nil)},
	{id: "CUR-5", title: "maxAgeMs of a subscription without a cursor changes nothing",
		needs: needHook, run: subscribedFromNow(map[string]any{"maxAgeMs": 3_600_000})},
	{id: "CUR-5", title: "a subscription with a negative maxAgeMs is InvalidParams", needs: needHook, run: checkSubscribeAge},
	{id: "CUR-7", title: "a subscription with a malformed cursor starts afresh and is truncated",
		needs: needHook, run: checkSubscribeCursor},
	{id: "CUR-7", title: "a subscription with the cursor of another type is not an error", needs: needHook, run: checkSubscribeForeign},
	{id: "CAP-4", title: "unknown members of a subscription are ignored", needs: needHook, run: checkSubscribeMembers},
	{id: "SUB-6", title: "the granted lifetime exceeds neither the request nor the minimum", needs: needHook, run: checkGrants},
	{id: "SUB-5", title: "a refresh grants a new lifetime", needs: needHook, run: checkGrantAnew},
	{id: "SUB-2", title: "a caller without a principal ends nobody's subscription",
		needs: needHook | needToken | needHTTP, run: checkAnonymousEnd},
	{id: "SUB-10", title: "another caller ends only its own subscription", needs: needHook | needOther | needHTTP, run: checkOtherEnd},
	{id: "SUB-10", title: "another caller with the same key has another subscription", needs: needHook | needOther | needHTTP, run: checkOtherCaller},
	{id: "VER-3", title: "a callback that another caller has verified is challenged again", needs: needHook | needOther | needHTTP, run: checkOtherChallenge},
	{id: "SUB-6", title: "a lifetime is granted within bounds, never refused", needs: needHook, run: checkLifetime},
	{id: "SUB-6", title: "a ttlMs that is not an integer is InvalidParams", needs: needHook, run: checkTTLForm},
	{id: "SUB-1", title: "a subscription with a cursor begins after it", needs: needHook | needReplay, run: checkBeginsBehind},
	{id: "SUB-1", title: "a subscription with a cursor loses nothing between its replay and later events", needs: needHook | needReplay, run: checkHookSeam},
	{id: "CUR-5", title: "maxAgeMs of a subscription leaves out what is older, and says truncated", needs: needHook | needReplay, run: checkSubscribeMaxAge},
	{id: "SUB-5", title: "the cursor of a refresh changes nothing of a live subscription", needs: needHook | needReplay, run: checkRefreshAt},
	{id: "SUB-3", title: "secrets of 24 and of 64 bytes are taken", needs: needHook, run: checkSecretSizes},
	{id: "SUB-4", title: "other arguments are another subscription, whatever the order of their members", needs: needHook, run: checkOtherArguments},
	{id: "HOOK-8", title: "deliveryStatus of a refresh has its members", needs: needHook, run: checkStatus},
}

func checkSubscribe(ctx context.Context, r *run) error {
	// Prefer a type with occurrences, which allows more checks.
	for _, s := range r.typesWith(wire.ModeWebhook) {
		if len(s.pollOccurrences()) > 0 || len(s.streamOccurrences()) > 0 {
			r.hook = s
			break
		}
	}
	c, x, err := r.subscribeNew(ctx, echoes)
	if err != nil {
		return err
	}
	if isForbidden(x) && r.o.Target.Token == "" {
		r.noPrincipal = true
		return skipf("the server knows no principal for this caller; give --token")
	}
	if isExhausted(x) {
		return skipf("the server takes no more subscriptions, or challenges, of this caller for now; wait a minute and run again")
	}
	id, err := grantedID(x, false)
	if x.answer.err == nil {
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
	x, err := r.send(ctx, request{id: r.nextID(), method: wire.MethodSubscribe, params: params, omitsToken: true})
	if page, ok := errors.AsType[*notMCPError](err); ok && (page.status == 401 || page.status == 403) {
		return nil // refused before JSON-RPC
	}
	if err != nil {
		return err
	}
	if x.status == 401 || x.status == 403 {
		return nil
	}
	if x.answer.err == nil {
		// The server has no owner for the subscription, or uses the principal of callers without a token.
		params["delivery"] = map[string]any{"mode": wire.ModeWebhook, "url": c.url}
		_, _ = r.send(ctx, request{id: r.nextID(), method: wire.MethodUnsubscribe, params: params, omitsToken: true})
	}
	return r.expectError(x, wire.Forbidden)
}

// expectDeliveryRefused checks that the server rejects an events/subscribe request with an invalid delivery.
func (r *run) expectDeliveryRefused(ctx context.Context, kind wire.Kind, what string, delivery map[string]any) error {
	params := r.hook.params(map[string]any{"cursor": nil, "delivery": delivery})
	r.recordKey(params)
	x, err := r.call(ctx, wire.MethodSubscribe, params)
	if err != nil {
		return err
	}
	if err := r.expectError(x, kind); err != nil {
		var v *verdict.Violation
		if errors.As(err, &v) {
			v.Expected += " for " + what
		}
		return err
	}
	return nil
}

func checkDeliveryMode(ctx context.Context, r *run) error {
	d := r.newCallback(echoes).delivery()
	delete(d, "mode")
	if err := r.expectDeliveryRefused(ctx, wire.InvalidParams, "a delivery without a mode", d); err != nil {
		return err
	}
	d["mode"] = "pigeon"
	return r.expectDeliveryRefused(ctx, wire.Unsupported, "an unknown mode", d)
}

// expectRefused checks that the server rejects an events/subscribe request with other invalid params.
func (r *run) expectRefused(ctx context.Context, kind wire.Kind, params map[string]any) error {
	params["delivery"], params["cursor"] = r.newCallback(echoes).delivery(), nil
	r.recordKey(params)
	x, err := r.call(ctx, wire.MethodSubscribe, params)
	if err != nil {
		return err
	}
	return r.expectError(x, kind)
}

func checkUnnamedSubscription(ctx context.Context, r *run) error {
	return r.expectRefused(ctx, wire.InvalidParams, map[string]any{})
}

func checkUnknownSubscription(ctx context.Context, r *run) error {
	return r.expectRefused(ctx, wire.NotFound, map[string]any{"name": noSuchEvent, "arguments": map[string]any{}})
}

func checkUnfitSubscription(ctx context.Context, r *run) error {
	if r.hook.invalid == nil {
		return skipf("the inputSchema of %s takes any arguments", r.hook.Name)
	}
	for _, bad := range r.hook.invalid {
		if err := r.expectRefused(ctx, wire.InvalidParams, map[string]any{"name": r.hook.Name, "arguments": bad}); err != nil {
			return err
		}
	}
	return nil
}

func checkWithoutWebhook(ctx context.Context, r *run) error {
	s := r.typeWithout(wire.ModeWebhook)
	if s == nil {
		return skipf("every event type offers webhook")
	}
	return r.expectRefused(ctx, wire.Unsupported, s.params(nil))
}

func checkURLs(ctx context.Context, r *run) error {
	good := r.newCallback(echoes)
	host := strings.TrimPrefix(good.url, "https://")
	for _, bad := range []string{"http://" + host, "https://user:pass@" + host, "/" + good.name,
		"https://", ""} {
		d := good.delivery()
		d["url"] = bad
		if err := r.expectDeliveryRefused(ctx, wire.InvalidParams, fmt.Sprintf("the callback %q", bad), d); err != nil {
			return err
		}
	}
	return nil
}

func checkFragment(ctx context.Context, r *run) error {
	d := r.newCallback(echoes).delivery()
	d["url"] = fmt.Sprint(d["url"], "#fragment")
	return r.expectDeliveryRefused(ctx, wire.InvalidParams, "a callback with a fragment", d)
}

func checkSecrets(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	for _, bad := range []string{"", "secret", wire.SecretPrefix, wire.SecretPrefix + "dG9vIHNob3J0",
		wire.SecretPrefix + "!!!" + strings.Repeat("A", 40),
		strings.TrimPrefix(c.secret, wire.SecretPrefix), wire.SecretPrefix + strings.Repeat("AAAA", 30)} {
		d := c.delivery()
		d["secret"] = bad
		if err := r.expectDeliveryRefused(ctx, wire.InvalidParams, "a secret that is not whsec_ and 24 to 64 bytes of base64",
			d); err != nil {
			return err
		}
	}
	return nil
}

func checkSubscribeMembers(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	if _, err := r.mustSubscribe(ctx, c, unknownMember); err != nil {
		return err
	}
	params := r.hook.params(map[string]any{"delivery": map[string]any{"mode": wire.ModeWebhook, "url": c.url}})
	maps.Copy(params, unknownMember)
	x, err := r.call(ctx, wire.MethodUnsubscribe, params)
	if err != nil {
		return err
	}
	if x.answer.err != nil {
		return x.violation("the member to be ignored", "error %d", x.answer.err.Code)
	}
	return nil
}

func checkSecretSizes(ctx context.Context, r *run) error {
	for _, size := range []int{24, 64} {
		c := r.newCallback(echoes)
		secret := randomSecret(size)
		r.Hide(secret)
		c.mu.Lock()
		c.secret, c.secrets = secret, append(c.secrets, secret)
		c.mu.Unlock()
		x, err := r.subscribe(ctx, r.hook, c, nil)
		if err != nil {
			return err
		}
		if _, err := grantedID(x, false); err != nil {
			return x.violation(fmt.Sprintf("a secret of %d bytes to be taken", size), "%v", err)
		}
		if _, err := r.unsubscribe(ctx, r.hook, c); err != nil {
			return err
		}
	}
	return nil
}
