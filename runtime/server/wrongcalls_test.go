package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// secretOf is the fault of a secret of another size.
func secretOf(size string) string {
	return `[{"path":"/delivery/secret","message":"must be whsec_ followed by the standard base64 of 24 to 64 bytes, and has ` + size + `"}]`
}

const badSecret = `[{"path":"/delivery/secret","message":"must be whsec_ followed by the standard base64 of 24 to 64 bytes"}]`

// wrongCall is one way to call events/subscribe or events/unsubscribe wrongly.
type wrongCall struct {
	name      string
	method    string // default events/subscribe
	principal string // default alice; - is nobody
	params    string
	kind      wire.Kind
	data      string // "*": any
}

func wrongCalls() []wrongCall {
	withURL := func(u string) string {
		b, _ := json.Marshal(u)
		return fmt.Sprintf(`{"name":"e","delivery":{"mode":"webhook","url":%s,"secret":%q}}`, b, secretA)
	}
	withSecret := func(s string) string {
		b, _ := json.Marshal(s)
		return fmt.Sprintf(`{"name":"e","delivery":{"mode":"webhook","url":%q,"secret":%s}}`, secure, b)
	}
	withArguments := func(a string) string {
		return fmt.Sprintf(`{"name":"e","arguments":%s,"delivery":{"mode":"webhook","url":%q,"secret":%q}}`, a, secure, secretA)
	}
	errs := func(list string) string { return `{"errors":` + list + `}` }
	one := func(path, message string) string {
		return errs(fmt.Sprintf(`[{"path":%q,"message":%q}]`, path, message))
	}
	url := func(message string) string { return one("/delivery/url", message) }
	const u = wire.MethodUnsubscribe
	odd := "has a blank, a backslash, a control character or a character outside of ASCII; write host names in their xn-- form and paths percent-encoded"
	calls := []wrongCall{
		{name: "no params", params: ``, kind: wire.InvalidParams, data: errs(`[{"path":"/name","message":"is required"},{"path":"/delivery","message":"is required"}]`)},
		{name: "params null", params: `null`, kind: wire.InvalidParams, data: "*"},
		{name: "params a list", params: `[]`, kind: wire.InvalidParams, data: "*"},
		{name: "params not JSON", params: `{"name":`, kind: wire.InvalidParams, data: "*"},
		{name: "duplicate member", params: `{"name":"e","name":"e"}`, kind: wire.InvalidParams, data: "*"},
		{name: "name missing", params: `{"delivery":{"mode":"webhook","url":"` + secure + `","secret":"` + secretA + `"}}`, kind: wire.InvalidParams, data: one("/name", "is required")},
		{name: "name of a wrong type", params: `{"name":7,"delivery":{"mode":"webhook","url":"` + secure + `","secret":"` + secretA + `"}}`, kind: wire.InvalidParams, data: one("/name", "must be a string")},
		{name: "delivery missing", params: `{"name":"e"}`, kind: wire.InvalidParams, data: one("/delivery", "is required")},
		{name: "delivery of a wrong type", params: `{"name":"e","delivery":"webhook"}`, kind: wire.InvalidParams, data: one("/delivery", "must be an object")},
		{name: "mode missing", params: `{"name":"e","delivery":{"url":"` + secure + `","secret":"` + secretA + `"}}`, kind: wire.InvalidParams, data: one("/delivery/mode", "is required")},
		{name: "mode of a wrong type", params: `{"name":"e","delivery":{"mode":null,"url":"` + secure + `","secret":"` + secretA + `"}}`, kind: wire.InvalidParams, data: one("/delivery/mode", "must be a string")},
		{name: "url missing", params: `{"name":"e","delivery":{"mode":"webhook","secret":"` + secretA + `"}}`, kind: wire.InvalidParams, data: url("is required")},
		{name: "url of a wrong type", params: `{"name":"e","delivery":{"mode":"webhook","url":{},"secret":"` + secretA + `"}}`, kind: wire.InvalidParams, data: url("must be a string")},
		{name: "secret missing", params: `{"name":"e","delivery":{"mode":"webhook","url":"` + secure + `"}}`, kind: wire.InvalidParams, data: one("/delivery/secret", "is required")},
		{name: "cursor of a wrong type", params: params(secure, secretA, `,"cursor":5`), kind: wire.InvalidParams, data: one("/cursor", "must be a string or null")},
		{name: "maxAgeMs negative", params: params(secure, secretA, `,"maxAgeMs":-1`), kind: wire.InvalidParams, data: one("/maxAgeMs", "must be at least 0")},
		{name: "maxAgeMs of a wrong type", params: params(secure, secretA, `,"maxAgeMs":"1"`), kind: wire.InvalidParams, data: one("/maxAgeMs", "must be an integer")},
		{name: "SUB-6 ttlMs no integer", params: params(secure, secretA, `,"ttlMs":1.5`), kind: wire.InvalidParams, data: one("/ttlMs", "must be an integer")},
		{name: "SUB-6 ttlMs of a wrong type", params: params(secure, secretA, `,"ttlMs":"60000"`), kind: wire.InvalidParams, data: one("/ttlMs", "must be an integer")},
		{name: "arguments of a wrong type", params: withArguments(`[]`), kind: wire.InvalidParams, data: one("/arguments", "must be an object")},
		{name: "several faults at once", params: `{"name":"e","delivery":{"mode":"webhook"},"maxAgeMs":-1}`, kind: wire.InvalidParams,
			data: errs(`[{"path":"/maxAgeMs","message":"must be at least 0"},{"path":"/delivery/url","message":"is required"},{"path":"/delivery/secret","message":"is required"}]`)},

		{name: "SUB-2 no principal", principal: "-", params: params(secure, secretA, ""), kind: wire.Forbidden},
		{name: "unknown event", params: strings.Replace(params(secure, secretA, ""), `"e"`, `"nope"`, 1), kind: wire.NotFound, data: `{"kind":"event"}`},
		{name: "LIST-4 hidden event", params: strings.Replace(params(secure, secretA, ""), `"e"`, `"hidden"`, 1), kind: wire.NotFound, data: `{"kind":"event"}`},
		{name: "SUB-1 another mode", params: `{"name":"e","delivery":{"mode":"push"}}`, kind: wire.Unsupported, data: `{"feature":"deliveryMode","value":"push"}`},
		{name: "SUB-1 unknown mode", params: `{"name":"e","delivery":{"mode":"Webhook"}}`, kind: wire.Unsupported, data: `{"feature":"deliveryMode","value":"Webhook"}`},
		{name: "LIST-3 a type without webhook", params: strings.Replace(params(secure, secretA, ""), `"e"`, `"pollonly"`, 1), kind: wire.Unsupported, data: `{"feature":"deliveryMode","value":"webhook"}`},

		{name: "argument unknown", params: withArguments(`{"nope":1}`), kind: wire.InvalidParams, data: "*"},
		{name: "argument of a wrong type", params: withArguments(`{"severity":5}`), kind: wire.InvalidParams, data: "*"},
		{name: "argument outside of its enum", params: withArguments(`{"severity":"P9"}`), kind: wire.InvalidParams, data: "*"},
		{name: "SUB-4 argument twice", params: withArguments(`{"severity":"P1","severity":"P2"}`), kind: wire.InvalidParams, data: "*"},
		{name: "SUB-4 integer too large", params: withArguments(`{"minLevel":9007199254740993}`), kind: wire.InvalidParams, data: "*"},
		{name: "SUB-4 invalid UTF-8", params: withArguments("{\"service\":\"\xff\"}"), kind: wire.InvalidParams, data: "*"},

		{name: "SUB-3 url empty", params: withURL(""), kind: wire.InvalidParams, data: url("is not absolute")},
		{name: "SUB-3 url relative", params: withURL("/hooks"), kind: wire.InvalidParams, data: url("is not absolute")},
		{name: "SUB-3 url opaque", params: withURL("https:receiver.test"), kind: wire.InvalidParams, data: url("is not absolute")},
		{name: "SUB-3 url http", params: withURL("http://other.test/hooks"), kind: wire.InvalidParams, data: url("is not https")},
		{name: "SUB-3 url of another scheme", params: withURL("ftp://receiver.test/"), kind: wire.InvalidParams, data: url("is not https")},
		{name: "SUB-3 url with userinfo", params: withURL("https://a:b@receiver.test/"), kind: wire.InvalidParams, data: url("has userinfo")},
		{name: "SUB-3 url with a fragment", params: withURL(secure + "#x"), kind: wire.InvalidParams, data: url("has a fragment")},
		{name: "SUB-3 url with an empty fragment", params: withURL(secure + "#"), kind: wire.InvalidParams, data: url("has a fragment")},
		{name: "SUB-3 url with a blank", params: withURL(secure + " x"), kind: wire.InvalidParams, data: url(odd)},
		{name: "SUB-3 url with a backslash", params: withURL(`https://receiver.test\@127.0.0.1/`), kind: wire.InvalidParams, data: url(odd)},
		{name: "SUB-3 url with a line break", params: withURL("https://receiver.test/\r\nHost: x"), kind: wire.InvalidParams, data: url(odd)},
		{name: "SUB-3 url too long", params: withURL(secure + strings.Repeat("x", 3000)), kind: wire.InvalidParams, data: url("has 3029 bytes, more than 2048")},
		{name: "SUB-3 url with an odd port", params: withURL("https://receiver.test:0443/"), kind: wire.InvalidParams, data: url("has an odd port")},
		{name: "SUB-3 url is a number", params: withURL("https://2130706433/"), kind: wire.InvalidParams, data: url("has an odd host")},
		{name: "SUB-3 private name", params: withURL("https://inside.test/hooks"), kind: wire.InvalidParams, data: url("has a blocked address")},
		{name: "SUB-3 one private address among public ones", params: withURL("https://mixed.test/hooks"), kind: wire.InvalidParams, data: url("has a blocked address")},

		{name: "SUB-3 secret empty", params: withSecret(""), kind: wire.InvalidParams, data: errs(badSecret)},
		{name: "SUB-3 secret without prefix", params: withSecret(strings.TrimPrefix(secretA, "whsec_")), kind: wire.InvalidParams, data: errs(badSecret)},
		{name: "SUB-3 secret not base64", params: withSecret("whsec_!!!!"), kind: wire.InvalidParams, data: errs(badSecret)},
		{name: "SUB-3 secret too short", params: withSecret("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), kind: wire.InvalidParams, data: errs(secretOf("23 bytes"))},
		{name: "SUB-3 secret too long", params: withSecret("whsec_" + strings.Repeat("A", 88)), kind: wire.InvalidParams, data: errs(secretOf("66 bytes"))},
		{name: "SUB-3 secret far too long", params: withSecret("whsec_" + strings.Repeat("A", 100_000)), kind: wire.InvalidParams, data: errs(secretOf("a text of 100006 bytes"))},
		{name: "mode far too long", params: `{"name":"e","delivery":{"mode":"` + strings.Repeat("m", 5000) + `","url":"` + plain + `","secret":"` + secretA + `"}}`, kind: wire.Unsupported, data: `{"feature":"deliveryMode","value":"` + strings.Repeat("m", wire.MaxShown) + `…"}`},
		{name: "SUB-3 url and secret", params: `{"name":"e","delivery":{"mode":"webhook","url":"http://x.test","secret":"x"}}`, kind: wire.InvalidParams,
			data: errs(`[{"path":"/delivery/url","message":"is not https"},` + badSecret[1:])},
		{name: "AUTH-1 not authorized", principal: "mallory", params: params(secure, secretA, ""), kind: wire.Forbidden, data: `{"reason":"not you"}`},

		{name: "no params", method: u, params: ``, kind: wire.InvalidParams, data: errs(`[{"path":"/name","message":"is required"},{"path":"/delivery","message":"is required"}]`)},
		{name: "name of a wrong type", method: u, params: `{"name":null,"delivery":{"url":"x"}}`, kind: wire.InvalidParams, data: one("/name", "must be a string")},
		{name: "delivery missing", method: u, params: `{"name":"e"}`, kind: wire.InvalidParams, data: one("/delivery", "is required")},
		{name: "url missing", method: u, params: `{"name":"e","delivery":{"mode":"webhook"}}`, kind: wire.InvalidParams, data: url("is required")},
		{name: "url of a wrong type", method: u, params: `{"name":"e","delivery":{"url":1}}`, kind: wire.InvalidParams, data: url("must be a string")},
		{name: "arguments of a wrong type", method: u, params: `{"name":"e","arguments":1,"delivery":{"url":"x"}}`, kind: wire.InvalidParams, data: one("/arguments", "must be an object")},
		{name: "SUB-4 argument twice", method: u, params: `{"name":"e","arguments":{"a":1,"a":1},"delivery":{"url":"x"}}`, kind: wire.InvalidParams, data: "*"},
		{name: "SUB-2 no principal", method: u, principal: "-", params: `{"name":"e","delivery":{"url":"x"}}`, kind: wire.Forbidden},
		{name: "D6 unknown subscription", method: u, params: `{"name":"e","delivery":{"url":"` + secure + `"}}`, kind: wire.NotFound, data: `{"kind":"subscription"}`},
		{name: "SUB-9 nothing but the key counts", method: u, params: `{"name":"no such event","arguments":{"x":1},"delivery":{"mode":"push","url":"not a url","secret":7}}`, kind: wire.NotFound, data: `{"kind":"subscription"}`},
	}
	for _, host := range []string{"127.0.0.1", "[::1]", "10.1.2.3", "192.168.0.1", "169.254.169.254", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "0.0.0.0", "localhost", "100.64.0.1"} {
		calls = append(calls, wrongCall{name: "SUB-3 blocked host " + host, params: withURL("https://" + host + "/"), kind: wire.InvalidParams, data: url("has a blocked address")})
	}
	return calls
}

// TestWrongCalls calls events/subscribe and events/unsubscribe in every wrong way: each has its
// code, in both families, its data, and leaves nothing behind, not even a packet (ERR-2, SUB-1 to
// SUB-4, SUB-9, trap 8).
func TestWrongCalls(t *testing.T) {
	for _, codes := range []Codes{CodesSketch, CodesSEP} {
		dialect := wire.Dialect(codes)
		bubble(t, func(o *Options) {
			o.Codes = codes
			o.Visible = func(_ context.Context, _, event string) bool { return event != "hidden" }
			o.Authorize = func(_ context.Context, principal, _ string, _ json.RawMessage) error {
				if principal == "mallory" {
					return events.Forbidden("not you")
				}
				return nil
			}
		}, func(t *testing.T, w *world) {
			hooks := &journal{}
			h := Hooks[filterArgs, incident]{OnSubscribe: func(_ context.Context, s Subscription, _ *filterArgs) error { hooks.add(s.ID); return nil }}
			register(t, w.Server, "e", h)
			register(t, w.Server, "hidden", h)
			register(t, w.Server, "pollonly", h, WithoutWebhook())
			w.r.answer = func(host string) ([]string, error) {
				return map[string][]string{"receiver.test": {"93.184.216.34"}, "inside.test": {"10.0.0.7"}, "mixed.test": {"93.184.216.34", "127.0.0.1"}, "localhost": {"127.0.0.1"}}[host], nil
			}
			for _, c := range wrongCalls() {
				if c.method == "" {
					c.method = wire.MethodSubscribe
				}
				if c.principal == "" {
					c.principal = "alice"
				} else if c.principal == "-" {
					c.principal = ""
				}
				_, rerr := call(w.Server, c.principal, c.method, c.params)
				if rerr == nil {
					t.Errorf("%s %s: accepted", c.method, c.name)
					continue
				}
				if rerr.Code != dialect.Code(c.kind) || !strings.HasPrefix(rerr.Message+": ", c.kind.String()+": ") || c.data != "*" && string(rerr.Data) != c.data {
					t.Errorf("%s %s: got %d %s %s, want %d %s", c.method, c.name, rerr.Code, rerr.Message, rerr.Data, dialect.Code(c.kind), c.data)
				}
				if c.data == "*" && !strings.HasPrefix(string(rerr.Data), `{"errors":[{"path":`) {
					t.Errorf("%s %s: data %s", c.method, c.name, rerr.Data)
				}
			}
			w.nothingLeft(hooks)
			if n := w.r.packets(); n != 0 {
				t.Errorf("%d connections were made", n)
			}
		})
	}
}

// nothingLeft fails when anything of a refused subscription is left (ERR-2).
func (w *world) nothingLeft(hooks *journal) {
	w.t.Helper()
	if subs := w.Subscriptions(); len(subs) != 0 {
		w.t.Errorf("live: %v", subs)
	}
	if page, err := w.live().Store().Subscriptions(context.Background(), "", 10); err != nil || len(page) != 0 {
		w.t.Errorf("stored: %v %v", page, err)
	}
	if _, n, err := w.live().Store().CountSubscriptions(context.Background(), ""); err != nil || n != 0 {
		w.t.Errorf("counted: %d in all, %v", n, err)
	}
	w.Server.memoryUsage.mu.Lock()
	held := w.Server.memoryUsage.total
	w.Server.memoryUsage.mu.Unlock()
	if held != 0 {
		w.t.Errorf("CAP-5: %d bytes stay charged", held)
	}
	if hooks != nil && len(hooks.lines())%2 != 0 {
		w.t.Errorf("hooks: %q", hooks.lines())
	}
}
