package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func checkSameKey(ctx context.Context, r *run) error {
	return r.expectSameKey(ctx, r.hook.args)
}

// expectSameKey checks that the given arguments identify the existing subscription.
func (r *run) expectSameKey(ctx context.Context, forms ...any) error {
	for _, args := range forms {
		x, err := r.mustSubscribe(ctx, r.hook, r.mainSubscription.callback, map[string]any{"arguments": args})
		if err != nil {
			return err
		}
		if id, _ := grantedID(x, false); id != r.mainSubscription.id {
			return x.violation("the id "+r.mainSubscription.id, "%s", wire.Shown(id))
		}
	}
	return nil
}

func checkSameAbsent(ctx context.Context, r *run) error {
	if string(r.hook.args) != `{}` {
		return skipf("%s does not go without arguments", r.hook.Name)
	}
	return r.expectSameKey(ctx, json.RawMessage(`null`), nil)
}

// checkURLSpelling subscribes a callback again by other spellings of its URL, which a server may refuse.
func checkURLSpelling(ctx context.Context, r *run) error {
	c, _, first, err := r.subscribeNew(ctx, nil)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(c.url, c.name)
	spellings := []string{base + fmt.Sprintf("%%%X", c.name[0]) + c.name[1:], strings.Replace(c.url, "https", "HTTPS", 1), c.url + "?", base + "./" + c.name}
	for _, spelling := range append(draw.Some(r.draw.For("key-url"), 2, spellings), c.url) {
		delivery := c.delivery()
		delivery["url"] = spelling
		x, err := r.subscribe(ctx, r.hook, c, map[string]any{"delivery": delivery})
		if err != nil {
			return err
		}
		if x.answer.err != nil {
			continue
		}
		id, err := grantedID(x, false)
		if err == nil && (id == first && spelling != c.url || id == r.mainSubscription.id) {
			err = x.violation("another id than "+id+", since the URL is another, or spelled otherwise", "the same")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isBarred reports whether the server refused a caller before JSON-RPC.
func isBarred(x *exchange, err error) bool {
	if page, ok := errors.AsType[*notMCPError](err); ok {
		return page.status == 401 || page.status == 403
	}
	return err == nil && (x.status == 401 || x.status == 403)
}

// endAs tries to end the subscription of a callback as another caller. It returns false if that caller was barred.
func (r *run) endAs(ctx context.Context, q request, c *callback) (x *exchange, answered bool, err error) {
	q.method = wire.MethodUnsubscribe
	q.params = r.hook.params(map[string]any{"delivery": map[string]any{"mode": wire.ModeWebhook, "url": c.url}})
	if x, err = r.send(ctx, q); isBarred(x, err) {
		return x, false, nil
	}
	return x, err == nil, err
}

// endedAs returns a check that another caller cannot end a subscription. Its owner must still be able to end it. A later
// delivery proves nothing because it may already have been in flight.
func endedAs(q request) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		c, _, _, err := r.subscribeNew(ctx, nil)
		if err != nil {
			return err
		}
		x, answered, err := r.endAs(ctx, q, c)
		if err == nil && answered && q.omitsToken {
			err = r.expectError(x, wire.Forbidden)
		}
		if err != nil {
			return err
		}
		end, err := r.unsubscribe(ctx, r.hook, c)
		if err == nil && end.answer.err != nil {
			err = x.violation("the subscription to be there afterwards", "error %d when its owner ended it", end.answer.err.Code)
		}
		return err
	}
}

// subscribeAsOther subscribes an existing callback as another caller with another secret, and then ends that
// subscription.
func (r *run) subscribeAsOther(ctx context.Context) (c *callback, mine, theirs *exchange, err error) {
	c, mine, _, err = r.subscribeNew(ctx, nil)
	if err != nil {
		return c, mine, nil, err
	}
	r.rotate(c)
	q := request{method: wire.MethodSubscribe, otherCaller: true, params: r.hook.params(map[string]any{"cursor": nil, "delivery": c.delivery()})}
	if theirs, err = r.send(ctx, q); err != nil {
		return c, mine, theirs, err
	}
	_, _, err = r.endAs(ctx, request{otherCaller: true}, c)
	return c, mine, theirs, err
}

func checkOtherCaller(ctx context.Context, r *run) error {
	_, mine, theirs, err := r.subscribeAsOther(ctx)
	if err != nil {
		return err
	}
	id, err := grantedID(theirs, false)
	if err != nil {
		return err
	}
	if string(verdict.Encode(id)) == string(member(mine.answer.result, "id")) {
		return theirs.violation("another id than that of the first caller", "the same")
	}
	return nil
}

func checkOtherChallenge(ctx context.Context, r *run) error {
	c, _, theirs, err := r.subscribeAsOther(ctx)
	if err != nil {
		return err
	}
	challenges := 0
	for _, p := range c.receivedPosts() {
		if isChallenge(p) {
			challenges++
		}
	}
	switch challenges {
	case 0:
		return skipf("no challenge came: the server knows the callback by other means")
	case 1:
		return theirs.violation("another challenge for the other caller", "none")
	}
	return nil
}

// checkTwoSubscriptions subscribes one callback with two arguments. It must receive, under the id of each, the events that
// the main callback and another callback receive, which have one of these subscriptions.
func checkTwoSubscriptions(ctx context.Context, r *run) error {
	if r.hook.otherArgs == nil {
		return skipf("no other arguments of %s are known to fit", r.hook.Name)
	}
	both, alone := r.newCallback(echoes), r.newCallback(echoes)
	others := map[string]any{"arguments": r.hook.otherArgs}
	first, err := r.mustSubscribe(ctx, r.hook, both, nil)
	if err != nil {
		return err
	}
	second, err := r.mustSubscribe(ctx, r.hook, both, others)
	if err != nil {
		return err
	}
	if _, err := r.mustSubscribe(ctx, r.hook, alone, others); err != nil {
		return err
	}
	p, ok := alone.await(ctx, 0, r.o.pace.call, isOccurrence)
	if !ok {
		return skipf("nothing was delivered with other arguments")
	}
	want := (occurrence{raw: p.body}).eventID()
	for _, x := range []*exchange{first, second} {
		id, _ := grantedID(x, false)
		if _, ok := both.await(ctx, 0, r.o.pace.call, func(p post) bool {
			return (occurrence{raw: p.body}).eventID() == want && p.header.Get(wire.HeaderSubscriptionID) == id
		}); !ok && ctx.Err() == nil && (x == second || len(r.mainSubscription.callback.postsOf(want)) > 0) {
			return x.violation("the delivery of "+wire.Shown(want)+" for each of two subscriptions of a callback", "none for %s", wire.Shown(id))
		}
	}
	return nil
}

// checkOtherArguments creates and ends a subscription that differs from another only in its arguments. It sends the
// arguments in two orders.
func checkOtherArguments(ctx context.Context, r *run) error {
	s := r.hook
	if s.otherArgs == nil {
		return skipf("no other arguments of %s are known to fit", s.Name)
	}
	c, _, mine, err := r.subscribeNew(ctx, nil)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(s.otherArgs))
	ordered := func() json.RawMessage {
		var members []string
		for _, name := range names {
			members = append(members, string(verdict.Encode(name))+":"+string(s.otherArgs[name]))
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
		id, err := grantedID(x, false)
		if err != nil {
			return err
		}
		if id == mine {
			return x.violation("another id than "+mine+", since the arguments are others", "the same")
		}
		if len(ids) > 0 && ids[0] != id {
			return x.violation("the id "+ids[0]+": the arguments are equal", "%s", wire.Shown(id))
		}
		ids = append(ids, id)
		slices.Reverse(names)
	}
	params := map[string]any{"name": s.Name, "arguments": ordered(), "delivery": map[string]any{"mode": wire.ModeWebhook, "url": c.url}}
	x, err := r.mustSend(ctx, request{method: wire.MethodUnsubscribe, params: params}, "an empty result")
	if err != nil {
		return err
	}
	// The first subscription still exists.
	end, err := r.unsubscribe(ctx, s, c)
	if err == nil && end.answer.err != nil {
		err = x.violation("the subscription without these arguments to be there afterwards", "error %d when it was ended", end.answer.err.Code)
	}
	return err
}
