package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A way is a delivery mode, with the method by which a caller begins to use it.
type way struct {
	prefix, noun string // of the names and the titles of its checks
	mode, method string
	id           string // the requirement of the method
	other        string // the requirement of types without the mode
	needs        need
}

var (
	pollWay      = way{"poll", "A poll", wire.ModePoll, wire.MethodPoll, "POLL-1", "POLL-6", needPoll}
	streamWay    = way{"stream", "A stream", wire.ModePush, wire.MethodStream, "PUSH-1", "LIST-3", needPush}
	subscribeWay = way{"subscribe", "A subscription", wire.ModeWebhook, wire.MethodSubscribe, "SUB-1", "LIST-3", needHook}
)

// checks returns the checks that every way has.
func (w way) checks() []check {
	of := func(name, id, title string, needs need, try func(context.Context, *run, way, *draw.Source) error) check {
		name = w.prefix + "-" + name
		return check{name: name, id: id, title: w.noun + " " + title, needs: needs,
			run: func(ctx context.Context, r *run) error { return try(ctx, r, w, r.draw.For(name)) }}
	}
	offered, occurred := w.needs&^(needPoll|needPush), w.needs
	if w.mode != wire.ModeWebhook {
		occurred |= needOccurred
	}
	return []check{
		of("name-missing", w.id, "without a name fails with InvalidParams", w.needs, checkNameMissing),
		of("name-unknown", w.id, "with an unknown name fails with NotFound", w.needs, checkNameUnknown),
		of("arguments", w.id, "with invalid arguments fails with InvalidParams", w.needs, checkArguments),
		of("unsupported", w.other, "of a type without the mode fails with Unsupported", offered, checkUnsupported),
		of("error-order", "ERR-2", "with several faults fails with the first one", w.needs, checkErrorOrder),
		of("max-age-invalid", "CUR-5", "with an invalid maxAgeMs fails with InvalidParams", w.needs, checkMaxAgeInvalid),
		of("unknown-members", "CAP-4", "ignores unknown members", w.needs, checkMembers),
		of("cursor-malformed", "CUR-7", "with a malformed cursor begins at the present and sets truncated", w.needs, checkCursorMalformed),
		of("cursor-foreign", "CUR-7", "with the cursor of another type does not fail", w.needs, checkCursorForeign),
		of("from-now", "CUR-2", "without a cursor begins at the present", occurred, checkFromNow(nil)),
		of("max-age-from-now", "CUR-5", "without a cursor ignores maxAgeMs", occurred, checkFromNow(map[string]any{"maxAgeMs": 3_600_000})),
		of("max-age", "CUR-5", "with maxAgeMs omits only older events, and sets truncated only then", occurred, checkMaxAge),
	}
}

// try sends a request of the way and returns the response. It ends what the request began. For a stream, it returns the
// first message.
func (w way) try(ctx context.Context, r *run, params map[string]any) (*exchange, error) {
	switch w.mode {
	case wire.ModePoll:
		return r.call(ctx, w.method, params)
	case wire.ModePush:
		f, x, err := r.firstMessage(ctx, request{method: w.method, params: params})
		if err == nil {
			f.stop()
		}
		return x, err
	}
	if _, given := params["delivery"]; !given {
		params["delivery"] = r.newCallback(echoes).delivery()
	}
	r.recordKey(params)
	x, err := r.call(ctx, w.method, params)
	if err == nil && x.answer.err == nil {
		_, err = r.call(ctx, wire.MethodUnsubscribe, keyOf(params))
	}
	return x, err
}

// members returns the members of a result or of the params of a notification.
func (x *exchange) members() json.RawMessage {
	if x.answer.isResponse() {
		return x.answer.result
	}
	return x.answer.params
}

// expectRefused checks that the server refuses a request of the way with an error of the kind.
func (w way) expectRefused(ctx context.Context, r *run, kind wire.Kind, data, params map[string]any) error {
	x, err := w.try(ctx, r, params)
	if err != nil {
		return err
	}
	return r.expectErrorData(x, kind, data)
}

func checkNameMissing(ctx context.Context, r *run, w way, _ *draw.Source) error {
	for _, params := range []map[string]any{{}, {"name": 5}, {"name": nil}, {"name": []string{r.subject(w.needs).Name}}} {
		if err := w.expectRefused(ctx, r, wire.InvalidParams, nil, params); err != nil {
			return err
		}
	}
	return nil
}

const noSuchEvent = "mcpe-gen.conform.no-such-event"

// unknownNames returns names that are not those of an event type, most of them similar to one.
func (r *run) unknownNames(name string) (names []string) {
	before, _, _ := strings.Cut(name, ".")
	swapped := strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, name)
	for _, n := range []string{noSuchEvent, swapped, strings.ToUpper(name[:1]) + name[1:], name[:len(name)-1], before, name + "s", name + ".more", "x." + name,
		name + ".", " " + name, name + " ", "*", name + "*", "%", strings.Repeat("x", 300)} {
		if !r.names[n] {
			names = append(names, n)
		}
	}
	return names
}

func checkNameUnknown(ctx context.Context, r *run, w way, _ *draw.Source) error {
	for _, name := range r.unknownNames(r.subject(w.needs).Name) {
		x, err := w.try(ctx, r, map[string]any{"name": name, "arguments": map[string]any{}})
		if err != nil {
			return err
		}
		// A server may also refuse a name that no event type can have.
		if wire.CheckEventName(name) != nil && isKind(x, wire.InvalidParams) {
			continue
		}
		if err := r.expectErrorData(x, wire.NotFound, map[string]any{"kind": "event"}); err != nil {
			return err
		}
	}
	return nil
}

func checkArguments(ctx context.Context, r *run, w way, d *draw.Source) error {
	s := r.subject(w.needs)
	if s.invalid == nil {
		return skipf("the inputSchema of %s takes any arguments", s.Name)
	}
	values := []json.RawMessage{json.RawMessage(`"text"`), json.RawMessage(`[]`), json.RawMessage(`5`), json.RawMessage(`true`)}
	for _, args := range append(draw.Some(d, 2, values), s.invalid...) {
		if err := w.expectRefused(ctx, r, wire.InvalidParams, nil, map[string]any{"name": s.Name, "arguments": args}); err != nil {
			return err
		}
	}
	return nil
}

func checkUnsupported(ctx context.Context, r *run, w way, _ *draw.Source) error {
	s := r.typeWithout(w.mode)
	if s == nil {
		return skipf("every event type offers %s", w.mode)
	}
	return w.expectRefused(ctx, r, wire.Unsupported, map[string]any{"feature": "deliveryMode", "value": w.mode}, s.params(nil))
}

// checkErrorOrder sends requests with invalid arguments, and with an invalid callback, of a type that cannot be used. Other
// checks report an error of a third kind.
func checkErrorOrder(ctx context.Context, r *run, w way, _ *draw.Source) error {
	names := map[string]wire.Kind{noSuchEvent: wire.NotFound}
	if s := r.typeWithout(w.mode); s != nil {
		names[s.Name] = wire.Unsupported
	}
	for name, kind := range names {
		params := map[string]any{"name": name, "arguments": map[string]any{"mcpeGenConformNoSuchArgument": 1}}
		if w.mode == wire.ModeWebhook {
			params["delivery"] = map[string]any{"mode": w.mode, "url": "http://malformed", "secret": "malformed"}
		}
		x, err := w.try(ctx, r, params)
		if err != nil {
			return err
		}
		if isKind(x, wire.InvalidParams) {
			return r.expectError(x, kind)
		}
	}
	return nil
}

func checkMaxAgeInvalid(ctx context.Context, r *run, w way, d *draw.Source) error {
	ages := draw.Some(d, 3, []any{"x", "1000", 1.5, true, []int{1}, -1 << 53, map[string]any{}})
	return refusedParams(w, "maxAgeMs", append(ages, -1)...)(ctx, r)
}

// unknownMembers holds params that no method defines.
var unknownMembers = map[string]any{"mcpeGenConform": map[string]any{"a": []int{1}}, "id": "ignored", "filter": nil, "mode": "pigeon", "version": 2,
	"url": "nowhere"}

func checkMembers(ctx context.Context, r *run, w way, _ *draw.Source) error {
	const expected = "the members to be ignored"
	params := r.subject(w.needs).params(unknownMembers)
	params["cursor"] = nil
	if w.mode == wire.ModeWebhook {
		delivery := r.newCallback(echoes).delivery()
		maps.Copy(delivery, map[string]any{"mcpeGenConform": 1, "headers": map[string]any{}})
		params["delivery"] = delivery
		// It takes the same members to end the subscription.
		if err := r.expectResult(ctx, w.method, params, expected); err != nil {
			return err
		}
		w.method = wire.MethodUnsubscribe
	}
	x, err := w.try(ctx, r, params)
	if err != nil {
		return err
	}
	return x.refused(expected)
}

// checkCursorMalformed begins at cursors that the server cannot have issued, and at some that only look like one of its
// own.
func checkCursorMalformed(ctx context.Context, r *run, w way, d *draw.Source) error {
	s := r.subject(w.needs)
	impossible := []string{"mcpe-conform: no cursor", "☃", "{}", "a b", "AAAA", "null", "\n", strings.Repeat("x", 3000), `"`}
	similar := []string{"", "0", "1", "-1", "99999999999999999999", "true"}
	if s.first != nil && len(*s.first) > 1 {
		own := *s.first
		similar = append(similar, own+"x", own+"9", own[:len(own)-1], own[1:], strings.ToUpper(own), "x"+own)
	}
	for i, bad := range append(draw.Some(d, 4, impossible), draw.Some(d, 4, similar)...) {
		x, err := w.try(ctx, r, s.params(map[string]any{"cursor": bad}))
		if err == nil {
			err = x.refused(fmt.Sprintf("the cursor %q to be replaced, not refused", wire.Shown(bad)))
		}
		if err != nil {
			return err
		}
		at, err := stringOrNull(x, x.members(), "cursor")
		truncated, _ := boolMember(x, x.members(), "truncated")
		switch {
		case err != nil:
			return err
		case at == nil && s.replay && w.mode == wire.ModePoll:
			return x.violation("a fresh cursor", "null")
		case at == nil || i >= 4: // a type without replay, or a cursor that the server may know
		case *at == bad:
			return x.violation("a fresh cursor", "the malformed one")
		case !truncated:
			return x.violation("truncated to be true", "false")
		}
	}
	return nil
}

// checkCursorForeign begins at the cursor of another type. The server decides whether it recognizes one, because cursors
// are opaque.
func checkCursorForeign(ctx context.Context, r *run, w way, _ *draw.Source) error {
	s := r.subject(w.needs)
	for _, other := range r.typesWith(wire.ModePoll) {
		if other == s || other.first == nil || s.first != nil && *other.first == *s.first {
			continue
		}
		x, err := w.try(ctx, r, s.params(map[string]any{"cursor": *other.first}))
		if err == nil {
			err = x.refused("the cursor to be replaced, not refused")
		}
		if err != nil {
			return err
		}
		if at, err := stringOrNull(x, x.members(), "cursor"); err != nil || at == nil && s.replay && w.mode == wire.ModePoll {
			return x.violation("a fresh cursor", "%s", orNone(member(x.members(), "cursor")))
		}
		return nil
	}
	return skipf("no other event type has cursors")
}
