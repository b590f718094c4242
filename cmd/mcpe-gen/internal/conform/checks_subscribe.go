package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
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
	{id: "SUB-3", title: "a secret that is none is InvalidParams", needs: needHook, run: checkSecrets},
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
	{id: "CUR-7", title: "a subscription with the cursor of another type is no error", needs: needHook, run: checkSubscribeForeign},
	{id: "CAP-4", title: "unknown members of a subscription are ignored", needs: needHook, run: checkSubscribeMembers},
	{id: "SUB-6", title: "no more lifetime is granted than was asked for, or the least that there is", needs: needHook, run: checkGrants},
	{id: "SUB-5", title: "a refresh grants a lifetime anew", needs: needHook, run: checkGrantAnew},
	{id: "SUB-2", title: "a caller without a principal ends nobody's subscription",
		needs: needHook | needToken | needHTTP, run: checkAnonymousEnd},
	{id: "SUB-10", title: "another caller ends only a subscription of its own", needs: needHook | needOther | needHTTP, run: checkOtherEnd},
	{id: "SUB-10", title: "another caller with the same key has another subscription", needs: needHook | needOther | needHTTP, run: checkOtherCaller},
	{id: "VER-3", title: "a callback that another caller has verified is challenged again", needs: needHook | needOther | needHTTP, run: checkOtherChallenge},
	{id: "SUB-6", title: "a lifetime is granted within bounds, never refused", needs: needHook, run: checkLifetime},
	{id: "SUB-6", title: "a ttlMs that is no integer is InvalidParams", needs: needHook, run: checkTTLForm},
	{id: "SUB-1", title: "a subscription with a cursor begins after it", needs: needHook | needReplay, run: checkBeginsBehind},
	{id: "SUB-1", title: "a subscription with a cursor loses nothing between its replay and later events", needs: needHook | needReplay, run: checkHookSeam},
	{id: "CUR-5", title: "maxAgeMs of a subscription leaves out what is older, and says truncated", needs: needHook | needReplay, run: checkSubscribeMaxAge},
	{id: "SUB-5", title: "the cursor of a refresh changes nothing of a live subscription", needs: needHook | needReplay, run: checkRefreshAt},
	{id: "SUB-3", title: "secrets of 24 and of 64 bytes are taken", needs: needHook, run: checkSecretSizes},
	{id: "SUB-4", title: "other arguments are another subscription, whatever the order of their members", needs: needHook, run: checkOtherArguments},
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
		return skipf("the server knows no principal for this caller; give --token")
	}
	if exhausted(x) {
		return skipf("the server takes no more subscriptions, or challenges, of this caller for now; wait a minute and run again")
	}
	id, err := granted(x, false)
	if x.answer.err == nil {
		r.main = &subscription{of: r.hook, callback: c, made: x, id: id}
	}
	return err
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
		var v *verdict.Violation
		if errors.As(err, &v) {
			v.Expected += " for " + what
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
	return r.refuses(ctx, wire.NotFound, map[string]any{"name": noSuchEvent, "arguments": map[string]any{}})
}

func checkUnfitSubscription(ctx context.Context, r *run) error {
	if r.hook.bad == nil {
		return skipf("the inputSchema of %s takes any arguments", r.hook.Name)
	}
	for _, bad := range r.hook.bad {
		if err := r.refuses(ctx, wire.InvalidParams, map[string]any{"name": r.hook.Name, "arguments": bad}); err != nil {
			return err
		}
	}
	return nil
}

func checkWithoutWebhook(ctx context.Context, r *run) error {
	s := r.lacking(wire.ModeWebhook)
	if s == nil {
		return skipf("every event type offers webhook")
	}
	return r.refuses(ctx, wire.Unsupported, s.params(nil))
}

func checkURLs(ctx context.Context, r *run) error {
	good := r.callback(echoes)
	host := strings.TrimPrefix(good.url, "https://")
	for _, bad := range []string{"http://" + host, "https://user:pass@" + host, "/" + good.name,
		"https://", ""} {
		d := good.delivery()
		d["url"] = bad
		if err := r.refusesDelivery(ctx, wire.InvalidParams, fmt.Sprintf("the callback %q", bad), d); err != nil {
			return err
		}
	}
	return nil
}

func checkFragment(ctx context.Context, r *run) error {
	d := r.callback(echoes).delivery()
	d["url"] = fmt.Sprint(d["url"], "#fragment")
	return r.refusesDelivery(ctx, wire.InvalidParams, "a callback with a fragment", d)
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

func checkSameKey(ctx context.Context, r *run) error {
	return r.sameKey(ctx, r.hook.args)
}

// sameKey checks that arguments lead to the subscription that is there.
func (r *run) sameKey(ctx context.Context, forms ...any) error {
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

func checkSameAbsent(ctx context.Context, r *run) error {
	if string(r.hook.args) != `{}` {
		return skipf("%s does not go without arguments", r.hook.Name)
	}
	return r.sameKey(ctx, json.RawMessage(`null`), nil)
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
		return skipf("the server sends no deliveryStatus, which it need not")
	}
	if active := member(status, "active"); string(active) != "true" {
		return x.wrong("active to be true", "%s", orNone(status))
	}
	for _, name := range []string{"lastDeliveryAt", "lastError"} {
		last, err := nullable(x, status, name)
		if v, ok := errors.AsType[*verdict.Violation](err); ok {
			v.Mild = member(status, name) == nil
			return v
		}
		if last == nil || name == "lastError" {
			continue
		}
		if _, err := time.Parse(time.RFC3339Nano, *last); err != nil {
			return x.wrong("lastDeliveryAt to be a time or null", "%s", wire.Shown(*last))
		}
	}
	return nil
}

// known are the eventIds of a type that have come until now, by whatever mode.
func (r *run) known(s *subject) map[string]bool {
	ids := map[string]bool{}
	for _, o := range append(s.polled(), s.pushed()...) {
		ids[o.eventID()] = true
	}
	return ids
}

// present returns a condition on the ids that a new subscription gets, in order: it is in the present, or what it gets had
// been seen before. Until then history may come that nobody has seen.
func (r *run) present(s *subject, before map[string]bool) func(id string) bool {
	var unseen []string
	return func(id string) bool {
		if before[id] {
			return true
		}
		unseen = append(unseen, id)
		now := r.known(s)
		return slices.ContainsFunc(unseen, func(id string) bool { return now[id] })
	}
}

// subscribedFromNow checks that a new subscription gets nothing that had been seen before.
func subscribedFromNow(more map[string]any) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if len(r.hook.polled()) == 0 && len(r.hook.pushed()) == 0 {
			return skipf("nothing of %s has come by polls or streams", r.hook.Name)
		}
		c, before := r.callback(echoes), r.known(r.hook)
		x, err := r.subscribe(ctx, r.hook, c, more)
		if err != nil {
			return err
		}
		if _, err := granted(x, false); err != nil {
			return err
		}
		if truncated, _ := boolean(x, x.answer.result, "truncated"); truncated {
			return x.wrong("truncated to be false without a cursor", "true")
		}
		present := r.present(r.hook, before)
		c.await(ctx, 0, r.o.pace.arrive, func(p post) bool { return isOccurrence(p) && present((occurrence{raw: p.body}).eventID()) })
		if _, err := r.unsubscribe(ctx, r.hook, c); err != nil {
			return err
		}
		for _, p := range c.received() {
			if id := (occurrence{raw: p.body}).eventID(); isOccurrence(p) && before[id] {
				return p.exchange(x).wrong("nothing from before the subscription", "%s, which had come before", wire.Shown(id))
			}
		}
		return nil
	}
}

func checkSubscribeAge(ctx context.Context, r *run) error {
	x, err := r.subscribe(ctx, r.hook, r.callback(echoes), map[string]any{"maxAgeMs": -1})
	if err != nil {
		return err
	}
	return r.refused(x, wire.InvalidParams)
}

// begun makes a subscription with a cursor that the server cannot use, and ends it.
func (r *run) begun(ctx context.Context, cursor string) (*exchange, error) {
	c := r.callback(echoes)
	x, err := r.subscribe(ctx, r.hook, c, map[string]any{"cursor": cursor})
	if err != nil {
		return x, err
	}
	if _, err := granted(x, false); err != nil {
		return x, err
	}
	_, err = r.unsubscribe(ctx, r.hook, c)
	return x, err
}

func checkSubscribeCursor(ctx context.Context, r *run) error {
	const bad = "mcpe-gen conform: no cursor"
	x, err := r.begun(ctx, bad)
	if err != nil {
		return err
	}
	at := resultCursor(x)
	truncated, _ := boolean(x, x.answer.result, "truncated")
	switch {
	case at == nil:
		return nil // a type without replay
	case *at == bad:
		return x.wrong("a fresh cursor", "the malformed one")
	case !truncated:
		return x.wrong("truncated to be true", "false")
	}
	return nil
}

func checkSubscribeForeign(ctx context.Context, r *run) error {
	for _, other := range r.offered(wire.ModePoll) {
		if other != r.hook && other.first != nil && (r.hook.first == nil || *other.first != *r.hook.first) {
			_, err := r.begun(ctx, *other.first)
			return err
		}
	}
	return skipf("no other event type has cursors")
}

func checkSubscribeMembers(ctx context.Context, r *run) error {
	c := r.callback(echoes)
	if _, err := r.subscribed(ctx, c, unknownMember); err != nil {
		return err
	}
	params := r.hook.params(map[string]any{"delivery": map[string]any{"mode": wire.ModeWebhook, "url": c.url}})
	maps.Copy(params, unknownMember)
	x, err := r.call(ctx, wire.MethodUnsubscribe, params)
	if err != nil {
		return err
	}
	if x.answer.err != nil {
		return x.wrong("the member to be ignored", "error %d", x.answer.err.Code)
	}
	return nil
}

// refreshBefore is that of a result, false when it has none.
func refreshBefore(x *exchange) (at time.Time, ok bool) {
	return at, json.Unmarshal(member(x.answer.result, "refreshBefore"), &at) == nil && !at.IsZero()
}

// clockSlack is how much a lifetime may be longer than asked for, for the way of the answer and rounding.
const clockSlack = 3 * time.Second

// checkGrants compares lifetimes by the clock of the server, which also gave the least.
func checkGrants(ctx context.Context, r *run) error {
	life := func(ttl time.Duration) (*exchange, time.Duration, error) {
		x, err := r.subscribe(ctx, r.hook, r.main.callback, map[string]any{"ttlMs": ttl.Milliseconds()})
		if err != nil {
			return x, 0, err
		}
		if _, err := granted(x, false); err != nil {
			return x, 0, err
		}
		until, _ := refreshBefore(x)
		now := x.date
		if now.IsZero() {
			now = time.Now()
		}
		return x, until.Sub(now), nil
	}
	_, least, err := life(time.Millisecond)
	if err != nil {
		return err
	}
	for _, ttl := range []time.Duration{time.Minute, 10 * time.Minute} {
		x, granted, err := life(ttl)
		if err != nil {
			return err
		}
		if granted > max(ttl, least)+clockSlack {
			return x.wrong(fmt.Sprintf("at most the %v that were asked for, or the least of %v", ttl, least.Round(time.Second)), "%v", granted.Round(time.Second))
		}
	}
	return nil
}

func checkGrantAnew(ctx context.Context, r *run) error {
	c := r.callback(echoes)
	x, err := r.subscribed(ctx, c, nil)
	if err != nil {
		return err
	}
	before, _ := refreshBefore(x)
	pause(ctx, 5*r.o.pace.settle) // longer than seconds are rounded
	if x, err = r.subscribe(ctx, r.hook, c, nil); err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	after, _ := refreshBefore(x)
	if _, err := r.unsubscribe(ctx, r.hook, c); err != nil {
		return err
	}
	if !after.After(before) {
		return x.wrong("a refreshBefore later than "+before.Format(time.RFC3339Nano), "%s", after.Format(time.RFC3339Nano))
	}
	return nil
}

// endsMain tries to end the subscription that is judged as somebody else, and checks that it is still there.
func (r *run) endsMain(ctx context.Context, q request, url string) (*exchange, error) {
	q.id, q.method = r.nextID(), wire.MethodUnsubscribe
	q.params = r.hook.params(map[string]any{"delivery": map[string]any{"mode": wire.ModeWebhook, "url": url}})
	x, err := r.send(ctx, q)
	if page, ok := errors.AsType[*notMCP](err); ok && (page.status == 401 || page.status == 403) {
		return nil, nil // refused before JSON-RPC
	}
	return x, err
}

// livesOn checks that a subscription was not ended by what x shows: it is known when its owner ends it. That it is
// delivered to shows nothing, since what was under way may be late.
func (r *run) livesOn(ctx context.Context, c *callback, x *exchange) error {
	if x == nil {
		x = r.last
	}
	end, err := r.unsubscribe(ctx, r.hook, c)
	if err != nil {
		return err
	}
	if end.answer.err != nil {
		return x.wrong("the subscription to be there afterwards", "error %d when its owner ended it", end.answer.err.Code)
	}
	return nil
}

func checkAnonymousEnd(ctx context.Context, r *run) error {
	c, x, err := r.another(ctx, echoes)
	if err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	x, err = r.endsMain(ctx, request{anonymous: true}, c.url)
	if err != nil {
		return err
	}
	if x != nil && x.status != 401 && x.status != 403 {
		if err := r.refused(x, wire.Forbidden); err != nil {
			return err
		}
	}
	return r.livesOn(ctx, c, x)
}

func checkOtherEnd(ctx context.Context, r *run) error {
	c, x, err := r.another(ctx, echoes)
	if err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	if x, err = r.endsMain(ctx, request{other: true}, c.url); err != nil {
		return err
	}
	return r.livesOn(ctx, c, x)
}

// bySomebodyElse makes the subscription of a callback once more, as another caller with a secret of its own, and ends it.
func (r *run) bySomebodyElse(ctx context.Context) (c *callback, mine, theirs *exchange, err error) {
	c, mine, err = r.another(ctx, echoes)
	if err != nil {
		return c, mine, nil, err
	}
	if _, err := granted(mine, false); err != nil {
		return c, mine, nil, err
	}
	r.rotate(c)
	q := request{id: r.nextID(), method: wire.MethodSubscribe, other: true, params: r.hook.params(map[string]any{"cursor": nil, "delivery": c.delivery()})}
	if theirs, err = r.send(ctx, q); err != nil {
		return c, mine, theirs, err
	}
	end, err := r.endsMain(ctx, request{other: true}, c.url)
	if err != nil || end == nil {
		return c, mine, theirs, err
	}
	_, err = r.unsubscribe(ctx, r.hook, c)
	return c, mine, theirs, err
}

func checkOtherCaller(ctx context.Context, r *run) error {
	_, mine, theirs, err := r.bySomebodyElse(ctx)
	if err != nil {
		return err
	}
	id, err := granted(theirs, false)
	if err != nil {
		return err
	}
	if string(encode(id)) == string(member(mine.answer.result, "id")) {
		return theirs.wrong("another id than that of the first caller", "the same")
	}
	return nil
}

func checkOtherChallenge(ctx context.Context, r *run) error {
	c, _, theirs, err := r.bySomebodyElse(ctx)
	if err != nil {
		return err
	}
	challenges := 0
	for _, p := range c.received() {
		if isChallenge(p) {
			challenges++
		}
	}
	switch challenges {
	case 0:
		return skipf("no challenge came: the server knows the callback by other means")
	case 1:
		return theirs.wrong("a challenge of its own for the other caller", "none")
	}
	return nil
}

// checkBeginsBehind subscribes with the cursor from before the first occurrence that was seen.
func checkBeginsBehind(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c, want := r.callback(echoes), list[0].eventID()
	isWanted := func(p post) bool { return isOccurrence(p) && (occurrence{raw: p.body}).eventID() == want }
	x, err := r.subscribe(ctx, s, c, map[string]any{"cursor": *s.first})
	if err != nil {
		return err
	}
	delivered := map[string]bool{}
	for _, p := range c.received() {
		delivered[(occurrence{raw: p.body}).eventID()] = true
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	if truncated, _ := boolean(x, x.answer.result, "truncated"); truncated {
		if _, page, ok := (&witness{r: r, s: s}).poll(ctx, s.first, 1); ok && !page.truncated {
			return x.wrong("truncated to be false, as in a poll from this cursor", "true")
		}
		return skipf("retention has forgotten what came first")
	}
	at := resultCursor(x)
	if at == nil {
		return x.wrong("a cursor, since one was given", "null")
	}
	led := r.behind(ctx, s, *at)
	_, came := c.await(ctx, 0, r.o.Wait, isWanted)
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	switch {
	case !came:
		got := "nothing"
		if i := slices.IndexFunc(c.received(), isOccurrence); i >= 0 {
			got = wire.Shown((occurrence{raw: c.received()[i].body}).eventID()) + " first"
		}
		return x.wrong("the delivery of "+wire.Shown(want)+", which came after the cursor", "%s", got)
	}
	for _, o := range list {
		if id := o.eventID(); led != nil && !delivered[id] && !slices.Contains(led, id) {
			return x.wrong("a cursor that leads to "+wire.Shown(id)+", which had not been delivered", "%s", first(led))
		}
	}
	return nil
}

func checkSubscribeMaxAge(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c := r.callback(echoes)
	x, err := r.subscribe(ctx, s, c, map[string]any{"cursor": *s.first, "maxAgeMs": 0})
	if err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	truncated, _ := boolean(x, x.answer.result, "truncated")
	pause(ctx, r.o.pace.settle)
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	for _, p := range c.received() {
		if id := (occurrence{raw: p.body}).eventID(); isOccurrence(p) && id == list[0].eventID() {
			return p.exchange(x).wrong("what is older to be left out", "the occurrence %s", wire.Shown(id))
		}
	}
	if !truncated {
		return x.wrong("truncated to be true", "false")
	}
	return nil
}

// checkRefreshAt refreshes a live subscription with a cursor from long before.
func checkRefreshAt(ctx context.Context, r *run) error {
	s := r.hook
	list := r.awaitPolled(ctx, s)
	if len(list) == 0 || s.first == nil {
		return skipf("nothing of %s has come by polls", s.Name)
	}
	c, before := r.callback(echoes), list[0].eventID()
	x, err := r.subscribe(ctx, s, c, nil)
	if err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	if _, ok := c.await(ctx, 0, r.o.Wait, isOccurrence); !ok {
		return skipf("nothing was delivered within %v", r.o.Wait)
	}
	if x, err = r.subscribe(ctx, s, c, map[string]any{"cursor": *s.first, "maxAgeMs": 3_600_000}); err != nil {
		return err
	}
	if _, err := granted(x, false); err != nil {
		return err
	}
	isOld := func(p post) bool { return isOccurrence(p) && (occurrence{raw: p.body}).eventID() == before }
	p, replayed := c.await(ctx, 0, r.o.pace.quiet, isOld)
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	if replayed {
		return p.exchange(x).wrong("nothing from before the subscription: it is live, and its cursor is its own", "%s", wire.Shown(before))
	}
	return nil
}

func checkSecretSizes(ctx context.Context, r *run) error {
	for _, size := range []int{24, 64} {
		c := r.callback(echoes)
		secret := secretOf(size)
		r.Hide(secret)
		c.mu.Lock()
		c.secret, c.secrets = secret, append(c.secrets, secret)
		c.mu.Unlock()
		x, err := r.subscribe(ctx, r.hook, c, nil)
		if err != nil {
			return err
		}
		if _, err := granted(x, false); err != nil {
			return x.wrong(fmt.Sprintf("a secret of %d bytes to be taken", size), "%v", err)
		}
		if _, err := r.unsubscribe(ctx, r.hook, c); err != nil {
			return err
		}
	}
	return nil
}

// checkOtherArguments makes a subscription that differs from another one in its arguments alone, in two orders, and ends it.
func checkOtherArguments(ctx context.Context, r *run) error {
	s := r.hook
	if s.more == nil {
		return skipf("no other arguments of %s are known to fit", s.Name)
	}
	c, x, err := r.another(ctx, echoes)
	if err != nil {
		return err
	}
	mine, err := granted(x, false)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(s.more))
	ordered := func() json.RawMessage {
		var members []string
		for _, name := range names {
			members = append(members, string(encode(name))+":"+string(s.more[name]))
		}
		return json.RawMessage("{" + strings.Join(members, ",") + "}")
	}
	var ids []string
	for range 2 {
		x, err := r.subscribe(ctx, s, c, map[string]any{"arguments": ordered()})
		if err != nil {
			return err
		}
		if x.answer.err != nil {
			return skipf("the server takes no other arguments, or not of this caller")
		}
		id, err := granted(x, false)
		if err != nil {
			return err
		}
		if id == mine {
			return x.wrong("another id than "+mine+", since the arguments are others", "the same")
		}
		if len(ids) > 0 && ids[0] != id {
			return x.wrong("the id "+ids[0]+": the arguments are equal", "%s", wire.Shown(id))
		}
		ids = append(ids, id)
		slices.Reverse(names)
	}
	x, err = r.call(ctx, wire.MethodUnsubscribe, map[string]any{"name": s.Name, "arguments": ordered(), "delivery": map[string]any{"mode": wire.ModeWebhook, "url": c.url}})
	if err != nil {
		return err
	}
	if x.answer.err != nil {
		return x.wrong("an empty result", "error %d", x.answer.err.Code)
	}
	// The first one is still there.
	end, err := r.unsubscribe(ctx, s, c)
	if err == nil && end.answer.err != nil {
		err = x.wrong("the subscription without these arguments to be there afterwards", "error %d when it was ended", end.answer.err.Code)
	}
	return err
}
