package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func pointer[T any](v T) *T { return &v }

// decoders of the five methods, with the least that each needs.
var methods = []struct {
	method, least string
	decode        func(json.RawMessage) (any, error)
}{
	{wire.MethodList, `{}`, func(r json.RawMessage) (any, error) { return wire.DecodeListParams(r) }},
	{wire.MethodPoll, `{"name":"a"}`, func(r json.RawMessage) (any, error) { return wire.DecodePollParams(r) }},
	{wire.MethodStream, `{"name":"a"}`, func(r json.RawMessage) (any, error) { return wire.DecodeStreamParams(r) }},
	{wire.MethodSubscribe, `{"name":"a","delivery":{"mode":"webhook","url":"u","secret":"s"}}`, func(r json.RawMessage) (any, error) { return wire.DecodeSubscribeParams(r) }},
	{wire.MethodUnsubscribe, `{"name":"a","delivery":{"url":"u"}}`, func(r json.RawMessage) (any, error) { return wire.DecodeUnsubscribeParams(r) }},
}

// CAP-4: unknown members of the params of all five methods, an id too, are ignored; and so is a
// known one in another case.
func TestUnknownMembersAreIgnored(t *testing.T) {
	for _, m := range methods {
		want, err := m.decode(json.RawMessage(m.least))
		if err != nil {
			t.Fatalf("%s: %v", m.method, err)
		}
		for _, more := range []string{
			`"id":"sub_1"`, `"id":{"a":[1]}`, `"_meta":{"progressToken":1}`, `"Name":7`, `"CURSOR":[]`, `"Arguments":1`, `"maxevents":"x"`, `"ttlms":"x"`, `"":null`, `"x":9007199254740993`,
		} {
			text := strings.TrimSuffix(m.least, "}") + "," + more + "}"
			text = strings.Replace(text, "{,", "{", 1)
			got, err := m.decode(json.RawMessage(text))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s: %+v, %v", m.method, text, got, err)
			}
		}
	}
}

func TestParams(t *testing.T) {
	for _, c := range []struct {
		method int
		text   string
		want   any
	}{
		{0, ``, wire.ListParams{}},
		{0, `null`, wire.ListParams{}},
		{0, `{"cursor":null}`, wire.ListParams{}},
		{0, ` {"cursor":"c\u0041"} `, wire.ListParams{Cursor: "cA"}},
		{1, `{"name":"a","arguments":null,"cursor":null,"maxAgeMs":null,"maxEvents":null,"timeoutMs":null}`, wire.PollParams{Name: "a"}},
		{1, `{"name":"a","arguments":{"x":1.0},"cursor":"","maxAgeMs":0,"maxEvents":5.0,"timeoutMs":3e4}`,
			wire.PollParams{Name: "a", Arguments: json.RawMessage(`{"x":1.0}`), Cursor: pointer(""), MaxAgeMs: pointer[int64](0), MaxEvents: pointer[int64](5), TimeoutMs: pointer[int64](30000)}},
		// POLL-4: above the server's cap is clamped, never an error, however far above.
		{1, `{"name":"a","maxEvents":1e400,"maxAgeMs":99999999999999999999,"timeoutMs":9223372036854775808}`,
			wire.PollParams{Name: "a", MaxEvents: pointer[int64](math.MaxInt64), MaxAgeMs: pointer[int64](math.MaxInt64), TimeoutMs: pointer[int64](math.MaxInt64)}},
		{2, `{"name":"a","arguments":{},"cursor":"c","maxAgeMs":9}`, wire.StreamParams{Name: "a", Arguments: json.RawMessage(`{}`), Cursor: pointer("c"), MaxAgeMs: pointer[int64](9)}},
		{3, `{"name":"a","delivery":{"mode":"webhook","url":"https://r.example/","secret":"whsec_x"},"ttlMs":-1e300}`,
			wire.SubscribeParams{Name: "a", Delivery: wire.Delivery{Mode: "webhook", URL: "https://r.example/", Secret: "whsec_x"}, TTLMs: pointer[int64](math.MinInt64)}},
		{3, `{"name":"a","delivery":{"mode":"webhook","url":"u","secret":"s"},"ttlMs":null,"cursor":"c"}`,
			wire.SubscribeParams{Name: "a", Delivery: wire.Delivery{Mode: "webhook", URL: "u", Secret: "s"}, NoExpiry: true, Cursor: pointer("c")}},
		{3, `{"name":"a","delivery":{"mode":"email"}}`, wire.SubscribeParams{Name: "a", Delivery: wire.Delivery{Mode: "email"}}},
		{4, `{"name":"a","delivery":{"url":"u","mode":7}}`, wire.UnsubscribeParams{Name: "a", Delivery: wire.Delivery{URL: "u"}}},
	} {
		got, err := methods[c.method].decode(json.RawMessage(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s\n got %+v, %v\nwant %+v", methods[c.method].method, c.text, got, err, c.want)
		}
	}
}

// Wrong params are InvalidParams with every wrong field.
func TestParamFaults(t *testing.T) {
	for _, c := range []struct {
		method     int
		text, want string
	}{
		{0, `{"cursor":5}`, "/cursor: must be a string or null"},
		{0, `[]`, "must be an object"},
		{0, `"x"`, "must be an object"},
		{0, `{`, "is not valid JSON"},
		{0, `{} x`, "is not valid JSON"},
		{0, `{"a":1,"a":2}`, "/a: is a duplicate member"},
		{0, "{\"a\":\"\xff\"}", "/a: is not valid UTF-8"},
		{1, ``, "/name: is required"},
		{1, `{}`, "/name: is required"},
		{1, `{"Name":"a"}`, "/name: is required"},
		{1, `{"name":null}`, "/name: must be a string"},
		{1, `{"name":1,"arguments":[],"cursor":{},"maxAgeMs":-1,"maxEvents":0,"timeoutMs":1.5}`,
			"/name: must be a string; /arguments: must be an object; /cursor: must be a string or null; /maxAgeMs: must be at least 0; /maxEvents: must be at least 1; /timeoutMs: must be an integer"},
		{1, `{"name":"a","maxEvents":"5"}`, "/maxEvents: must be an integer"},
		{1, `{"name":"a","timeoutMs":-1}`, "/timeoutMs: must be at least 0"},
		{1, `{"name":"a","arguments":{"x":{"y":1,"y":1}}}`, "/arguments/x/y: is a duplicate member"},
		{2, `{"name":"a","maxAgeMs":true}`, "/maxAgeMs: must be an integer"},
		{3, `{"name":"a"}`, "/delivery: is required"},
		{3, `{"name":"a","delivery":null}`, "/delivery: must be an object"},
		{3, `{"name":"a","delivery":{}}`, "/delivery/mode: is required"},
		{3, `{"delivery":{"mode":"webhook","url":1}}`, "/name: is required; /delivery/url: must be a string; /delivery/secret: is required"},
		{3, `{"name":"a","delivery":{"mode":"webhook","url":"u","secret":"s"},"ttlMs":1.5}`, "/ttlMs: must be an integer"},
		{3, `{"name":"a","delivery":{"mode":"webhook","mode":"push"}}`, "/delivery/mode: is a duplicate member"},
		{4, `{"name":"a","delivery":{"mode":"webhook"}}`, "/delivery/url: is required"},
	} {
		_, err := methods[c.method].decode(json.RawMessage(c.text))
		var faults *wire.FieldErrors
		if !errors.As(err, &faults) || faults.Error() != c.want {
			t.Errorf("%s %s\n got %v\nwant %s", methods[c.method].method, c.text, err, c.want)
		}
	}
	_, err := wire.DecodePollParams(json.RawMessage(`{"name":"a","cursor":1}`))
	if data, _ := json.Marshal(err); string(data) != `{"errors":[{"path":"/cursor","message":"must be a string or null"}]}` {
		t.Errorf("as data: %s", data)
	}
}

func FuzzParams(f *testing.F) {
	for _, m := range methods {
		f.Add([]byte(m.least))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range methods {
			if _, err := m.decode(raw); err == nil && len(strings.TrimSpace(string(raw))) > 0 && !json.Valid(raw) {
				t.Errorf("%s accepts %q", m.method, raw)
			}
		}
	})
}

func BenchmarkDecodePollParams(b *testing.B) {
	raw := json.RawMessage(`{"name":"incident.created","arguments":{"severity":"P1"},"cursor":"AQFr0wAAAAAAAAAAAAAAAQAAAAAAAAAB","maxEvents":50,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodePollParams(raw); err != nil {
			b.Fatal(err)
		}
	}
}
