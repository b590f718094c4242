package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	{id: "SUB-3", title: "a callback that is no absolute https URL is InvalidParams", needs: needHook, run: checkURLs},
	{id: "SUB-3", title: "a secret that is none is InvalidParams", needs: needHook, run: checkSecrets},
	{id: "VER-2", title: "a wrong answer to the challenge is challenge_failed", needs: needHook, run: checkMistake},
	{id: "VER-2", title: "an error as answer to the challenge is a CallbackEndpointError",
		needs: needHook, run: checkFailing},
	{id: "ERR-1", title: "nothing that an endpoint says is passed on", needs: needHook, run: checkPassedOn},
	{id: "SSRF-2", title: "a redirect is not followed", needs: needHook, run: checkRedirect},
	{id: "SUB-4", title: "the same key is the same subscription", needs: needHook, run: checkSameKey},
	{id: "SUB-4", title: "another callback is another subscription", needs: needHook, run: checkOtherKey},
	{id: "SUB-6", title: "a lifetime is granted within bounds, never refused", needs: needHook, run: checkLifetime},
	{id: "SUB-6", title: "a ttlMs that is no integer is InvalidParams", needs: needHook, run: checkTTLForm},
	{id: "HOOK-8", title: "deliveryStatus of a refresh has its members", needs: needHook, run: checkStatus},
}

func checkSubscribe(ctx context.Context, r *run) error {
	// One that occurs tells more.
	for _, s := range r.offered(wire.ModeWebhook) {
		if len(s.polled()) > 0 || len(s.pushed()) > 0 {
			r.hook = s
			break
		}
	}
	c, x, err := r.another(ctx, echoes)
	if err != nil {
		return err
	}
	if forbidden(x) && r.o.Target.Token == "" {
		r.nobody = true
		return skip("the server knows no principal for this caller; give --token")
	}
	id, err := granted(x, false)
	if x.answer.err == nil {
		r.main = &subscription{of: r.hook, callback: c, made: x, id: id}
	}
	return err
}

func isChallenge(p post) bool { return p.kind == wire.EnvelopeVerification }

func checkChallenge(_ context.Context, r *run) error {
	posts := r.main.callback.received()
	if len(posts) == 0 {
		return r.main.made.wrong("a verification within the call (do not put the receiver on an allow-list)", "none")
	}
	p := posts[0]
	x := p.exchange(r.main.made)
	if !isChallenge(p) {
		return x.wrong("a verification before anything else", "%s", p.brief())
	}
	const prefix = wire.MessagePrefix + wire.EnvelopeVerification + "_"
	if id := p.header.Get(wire.HeaderWebhookID); !strings.HasPrefix(id, prefix) {
		return x.wrong("a webhook-id that begins with "+prefix, "%s", wire.Shown(id))
	}
	if err := p.signed(r.main.callback.secrets[0]); err != nil {
		return x.wrong("the signature of the secret that was given", "%v", err)
	}
	var challenge string
	if json.Unmarshal(member(p.body, "challenge"), &challenge) != nil || len(challenge) < 8 {
		return x.wrong("a challenge that nobody can guess", "%s", orNone(member(p.body, "challenge")))
	}
	return nil
}

func checkChallengeID(_ context.Context, r *run) error {
	for _, p := range r.main.callback.received() {
		if !isChallenge(p) {
			continue
		}
		if got := p.header.Get(wire.HeaderSubscriptionID); got != r.main.id {
			return p.exchange(r.main.made).wrong(wire.HeaderSubscriptionID+": "+r.main.id, "%q", wire.Shown(got))
		}
		return nil
	}
	return skip("no challenge came")
}

func checkNoStatus(_ context.Context, r *run) error {
	if raw := member(r.main.made.answer.result, "deliveryStatus"); raw != nil {
		return r.main.made.wrong("no deliveryStatus", "%s", wire.Shown(string(raw)))
	}
	return nil
}

func checkAnonymous(ctx context.Context, r *run) error {
	c := r.callback(echoes)
	params := r.hook.params(map[string]any{"cursor": nil, "delivery": c.delivery()})
	x, err := r.send(ctx, request{id: r.nextID(), method: wire.MethodSubscribe, params: params, anonymous: true})
	if page, ok := errors.AsType[*notMCP](err); ok && (page.status == 401 || page.status == 403) {
		return nil // refused before JSON-RPC
	}
	if err != nil {
		return err
	}
	if x.status == 401 || x.status == 403 {
		return nil
	}
	if x.answer.err == nil {
		// It belongs to nobody, or to whoever the server takes callers without a token for.
		params["delivery"] = map[string]any{"mode": wire.ModeWebhook, "url": c.url}
		_, _ = r.send(ctx, request{id: r.nextID(), method: wire.MethodUnsubscribe, params: params, anonymous: true})
	}
	return r.refused(x, wire.Forbidden)
}

// refusesDelivery tries an events/subscribe whose delivery is wrong.
func (r *run) refusesDelivery(ctx context.Context, kind wire.Kind, what string, delivery map[string]any) error {
	params := r.hook.params(map[string]any{"cursor": nil, "delivery": delivery})
	r.remember(params)
	x, err := r.call(ctx, wire.MethodSubscribe, params)
	if err != nil {
		return err
	}
	if err := r.refused(x, kind); err != nil {
		var v *violation
		if errors.As(err, &v) {
			v.expected += " for " + what
		}
		return err
	}
	return nil
}

func checkDeliveryMode(ctx context.Context, r *run) error {
	d := r.callback(echoes).delivery()
	delete(d, "mode")
	if err := r.refusesDelivery(ctx, wire.InvalidParams, "a delivery without a mode", d); err != nil {
		return err
	}
	d["mode"] = "pigeon"
	return r.refusesDelivery(ctx, wire.Unsupported, "an unknown mode", d)
}

// refuses tries an events/subscribe whose other params are wrong.
func (r *run) refuses(ctx context.Context, kind wire.Kind, params map[string]any) error {
	params["delivery"], params["cursor"] = r.callback(echoes).delivery(), nil
	r.remember(params)
	x, err := r.call(ctx, wire.MethodSubscribe, params)
	if err != nil {
		return err
	}
	return r.refused(x, kind)
}

func checkUnnamedSubscription(ctx context.Context, r *run) error {
	return r.refuses(ctx, wire.InvalidParams, map[string]any{})
}

func checkUnknownSubscription(ctx context.Context, r *run) error {
	return r.refuses(ctx, wire.NotFound, map[string]any{"name": noSuchEvent})
}

func checkUnfitSubscription(ctx context.Context, r *run) error {
	if r.hook.bad == nil {
		return skipf("the inputSchema of %s takes any arguments", r.hook.Name)
	}
	return r.refuses(ctx, wire.InvalidParams, map[string]any{"name": r.hook.Name, "arguments": r.hook.bad})
}

func checkWithoutWebhook(ctx context.Context, r *run) error {
	s := r.lacking(wire.ModeWebhook)
	if s == nil {
		return skip("every event type offers webhook")
	}
	return r.refuses(ctx, wire.Unsupported, s.params(nil))
}

func checkURLs(ctx context.Context, r *run) error {
	good := r.callback(echoes)
	host := strings.TrimPrefix(good.url, "https://")
	for _, bad := range []string{"http://" + host, "https://user:pass@" + host, good.url + "#fragment", "/" + good.name,
		"https://", ""} {
		d := good.delivery()
		d["url"] = bad
		if err := r.refusesDelivery(ctx, wire.InvalidParams, fmt.Sprintf("the callback %q", bad), d); err != nil {
			return err
		}
	}
	return nil
}

func checkSecrets(ctx context.Context, r *run) error {
	c := r.callback(echoes)
	for _, bad := range []string{"", "secret", wire.SecretPrefix, wire.SecretPrefix + "dG9vIHNob3J0",
		wire.SecretPrefix + "!!!" + strings.Repeat("A", 40),
		strings.TrimPrefix(c.secret, wire.SecretPrefix), wire.SecretPrefix + strings.Repeat("AAAA", 30)} {
		d := c.delivery()
		d["secret"] = bad
		if err := r.refusesDelivery(ctx, wire.InvalidParams, "a secret that is not whsec_ and 24 to 64 bytes of base64",
			d); err != nil {
			return err
		}
	}
	return nil
}

// callbackFails checks that a subscription whose callback does not prove itself is refused, and that
// nothing else is sent there.
func (r *run) callbackFails(ctx context.Context, m manner, reasons ...string) error {
	c, x, err := r.another(ctx, m)
	if err != nil {
		return err
	}
	if err := r.refused(x, wire.CallbackEndpointError); err != nil {
		return err
	}
	var reason string
	_ = json.Unmarshal(member(x.answer.err.Data, "reason"), &reason)
	if len(reasons) > 0 && !slices.Contains(reasons, reason) {
		return x.wrong("data with the reason "+strings.Join(reasons, " or "), "%s", orNone(x.answer.err.Data))
	}
	for i, p := range c.received() {
		if i > 0 || !isChallenge(p) {
			return p.exchange(x).wrong("one challenge and nothing else", "%s", p.brief())
		}
	}
	return nil
}

func checkPassedOn(ctx context.Context, r *run) error {
	_, x, err := r.another(ctx, fails)
	if err != nil {
		return err
	}
	if bytes.Contains(x.answer.raw, []byte(marker)) {
		return x.wrong("nothing of what the endpoint said", "its text")
	}
	return nil
}

func checkMistake(ctx context.Context, r *run) error {
	return r.callbackFails(ctx, mistakes, string(wire.ChallengeFailed))
}

func checkFailing(ctx context.Context, r *run) error {
	return r.callbackFails(ctx, fails, string(wire.ChallengeFailed), string(wire.HTTP5xx))
}

func checkRedirect(ctx context.Context, r *run) error {
	next := r.callback(echoes)
	c := r.callback(redirects)
	c.next = next.url
	x, err := r.subscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	if list := next.received(); len(list) > 0 {
		return list[0].exchange(x).wrong("no request to where the callback redirects", "%s", list[0].brief())
	}
	return r.refused(x, wire.CallbackEndpointError)
}

func checkSameKey(ctx context.Context, r *run) error {
	forms := []any{r.hook.args}
	if string(r.hook.args) == `{}` {
		forms = []any{json.RawMessage(`{}`), json.RawMessage(`null`), nil}
	}
	for _, args := range forms {
		x, err := r.subscribe(ctx, r.hook, r.main.callback, map[string]any{"arguments": args})
		if err != nil {
			return err
		}
		id, err := granted(x, false)
		if err != nil {
			return err
		}
		if id != r.main.id {
			return x.wrong("the id "+r.main.id, "%s", wire.Shown(id))
		}
	}
	return nil
}

func checkOtherKey(ctx context.Context, r *run) error {
	c, x, err := r.another(ctx, echoes)
	if err != nil {
		return err
	}
	id, err := granted(x, false)
	if err == nil && id == r.main.id {
		err = x.wrong("another id than "+r.main.id, "the same")
	}
	if _, end := r.unsubscribe(ctx, r.hook, c); err == nil {
		err = end
	}
	return err
}

func checkLifetime(ctx context.Context, r *run) error {
	for _, ttl := range []any{1, 0, -5, 60_000, int64(1) << 52, nil} {
		x, err := r.subscribe(ctx, r.hook, r.main.callback, map[string]any{"ttlMs": ttl})
		if err != nil {
			return err
		}
		if _, err := granted(x, ttl == nil); err != nil {
			return err
		}
	}
	return nil
}

func checkTTLForm(ctx context.Context, r *run) error {
	for _, ttl := range []any{"long", 1.5} {
		x, err := r.subscribe(ctx, r.hook, r.main.callback, map[string]any{"ttlMs": ttl})
		if err != nil {
			return err
		}
		if err := r.refused(x, wire.InvalidParams); err != nil {
			return err
		}
	}
	return nil
}

func checkStatus(ctx context.Context, r *run) error {
	x, err := r.subscribe(ctx, r.hook, r.main.callback, nil)
	if err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	status := member(x.answer.result, "deliveryStatus")
	if status == nil {
		return x.wrong("deliveryStatus", "none")
	}
	if active := member(status, "active"); string(active) != "true" {
		return x.wrong("active to be true", "%s", orNone(status))
	}
	return nil
}
