package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
)

type listResult struct {
	Events     []wire.Descriptor `json:"events"`
	NextCursor string            `json:"nextCursor"`
}

func (r listResult) names() []string {
	out := []string{}
	for _, d := range r.Events {
		out = append(out, d.Name)
	}
	return out
}

func listAs(t testing.TB, s *Server, principal, cursor string, canStream bool) listResult {
	t.Helper()
	p, _ := json.Marshal(map[string]string{"cursor": cursor})
	if cursor == "" {
		p = nil
	}
	raw, err := s.inside().Call(context.Background(), port.Request{Method: wire.MethodList, Params: p, Principal: principal, Stateless: true, CanStream: canStream})
	if err != nil {
		t.Fatal(err)
	}
	var r listResult
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// LIST-1, LIST-2, EVOL-4: pages in the author's order, descriptors as published.
func TestList(t *testing.T) {
	s := newServer(t, Options{PageSize: 2})
	if got := listAs(t, s, "", "", true); got.Events == nil || len(got.Events) != 0 {
		t.Fatalf("no types: %+v", got)
	}
	for _, name := range []string{"z", "a", "m", "b", "c"} {
		typ := incidentType(name)
		typ.Meta = map[string]any{"own": true}
		if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
	}
	first := listAs(t, s, "", "", true)
	wantStrings(t, "first", first.names(), "z", "a")
	d := first.Events[0]
	want, _ := wire.Fingerprint(json.RawMessage(filterSchema), json.RawMessage(incidentSchema))
	if d.Description != "An incident." || string(d.InputSchema) != filterSchema || string(d.PayloadSchema) != incidentSchema ||
		d.Meta["own"] != true || d.Meta[wire.MetaFingerprint] != want || len(want) != 32 {
		t.Fatalf("%+v", d)
	}
	second := listAs(t, s, "", first.NextCursor, true)
	wantStrings(t, "second", second.names(), "m", "b")
	if err := s.Remove("b"); err != nil {
		t.Fatal(err)
	}
	last := listAs(t, s, "", second.NextCursor, true)
	if wantStrings(t, "after a removal", last.names(), "c"); last.NextCursor != "" {
		t.Fatal("a page after the last")
	}
	for _, cursor := range []string{"garbage", wire.Cursor{Kind: wire.ListCursor, Name: wire.NameHash("z"), Position: 99}.String(),
		wire.Cursor{Kind: wire.ListCursor, Name: 1, Position: 1}.String(), wire.Cursor{Kind: wire.LogCursor, Name: wire.NameHash("z"), Position: 1}.String()} {
		_, err := call(s, "", wire.MethodList, fmt.Sprintf(`{"cursor":%q}`, cursor))
		wantError(t, err, -32602, "*")
	}
	for _, params := range []string{`{"cursor":null,"more":1}`, `null`, ``} {
		if _, err := call(s, "", wire.MethodList, params); err != nil {
			t.Errorf("%s: %v", params, err)
		}
	}
}

// LIST-1, Q2: a page ends before it becomes larger than a megabyte, but a descriptor that is larger has one by itself;
// following the cursors gives each type once.
func TestListPagesByBytes(t *testing.T) {
	s := newServer(t, Options{})
	for name, size := range map[string]int{"a": 400 << 10, "b": 500 << 10, "c": 300 << 10, "d": 2 << 20, "e": 10} {
		typ := incidentType(name)
		typ.PayloadSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","description":%q}`, strings.Repeat("x", size)))
		if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	pages, cursor := 0, ""
	for {
		page := listAs(t, s, "", cursor, true)
		size := 0
		for _, d := range page.Events {
			seen[d.Name]++
			size += len(d.PayloadSchema)
		}
		if len(page.Events) == 0 || len(page.Events) > 1 && size > 1<<20 {
			t.Fatalf("a page of %d event types has %d bytes of schemas", len(page.Events), size)
		}
		pages++
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if seen[name] != 1 {
			t.Errorf("%s is listed %d times", name, seen[name])
		}
	}
	if pages < 3 {
		t.Errorf("%d pages of 3.2 MB", pages)
	}
}

// Q2: event types of a generated package hold each definition once; what is listed is written when it is asked for,
// byte for byte as described, and so is the outputSchema of their read tools.
func TestSharedDefinitions(t *testing.T) {
	described := eventsimpl.NewSchemas(`{"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"}}},"B":{"type":"object","properties":{"n":{"type":"integer"},"a":{"$ref":"#/$defs/A"}}}},
		"refs":{"A":["B"],"B":["A"]},"events":{
		"a":{"description":"D","fingerprint":"f1","inputSchema":{"type":"object"},"payloadSchema":{"$ref":"#/$defs/A","$defs":["A"]}},
		"b":{"description":"D","fingerprint":"f2","inputSchema":{"type":"object"},"payloadSchema":{"$ref":"#/$defs/B","$defs":["B"]}}}}`)
	s := newServer(t, Options{})
	emitters := map[string]*Emitter[json.RawMessage]{}
	for _, name := range described.Events() {
		e, err := Register(s, events.Type[json.RawMessage, json.RawMessage]{Info: described.Describe(name)}, Hooks[json.RawMessage, json.RawMessage]{})
		if err != nil {
			t.Fatal(err)
		}
		emitters[name] = e
	}
	for _, d := range listAs(t, s, "", "", true).Events {
		if want := described.Describe(d.Name).PayloadSchema; string(d.PayloadSchema) != string(want) {
			t.Errorf("%s is listed with\n%s, want\n%s", d.Name, d.PayloadSchema, want)
		}
	}
	emit := func(name, payload string) error {
		return emitters[name].Emit(context.Background(), json.RawMessage(payload))
	}
	if err := emit("a", `{"b":{"n":1,"a":{"b":{"n":2}}}}`); err != nil {
		t.Error(err)
	}
	for name, payload := range map[string]string{"a": `{"b":{"n":1,"a":{"b":{"n":"x"}}}}`, "b": `{"a":{"b":{"n":1.5}}}`} {
		var bad *validate.Error
		if err := emit(name, payload); !errors.As(err, &bad) || !strings.HasSuffix(bad.Fields[0].Path, "/n") {
			t.Errorf("%s of %s: %v", payload, name, err)
		}
	}
	tools := readtool.All(described)
	if err := s.AddReadTools(tools...); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		got, err := json.Marshal(tool.Tool.OutputSchema)
		if want := toolschema.OutputSchema(described.Describe(tool.Event).PayloadSchema); err != nil || string(got) != string(want) {
			t.Errorf("%s has the outputSchema\n%s, want\n%s (%v)", tool.Tool.Name, got, want, err)
		}
	}
}

// LIST-3: delivery is computed; webhook never, whatever the descriptor says; what a mode lacks is
// Unsupported, not -32601.
func TestDelivery(t *testing.T) {
	s := newServer(t, Options{})
	reg := func(name string, noReplay bool, delivery []string, o ...TypeOption) {
		typ := incidentType(name)
		typ.Delivery, typ.NoReplay = delivery, noReplay
		if _, err := Register(s, typ, Hooks[filterArgs, incident]{}, o...); err != nil {
			t.Fatal(err)
		}
	}
	reg("all", false, nil)
	reg("three", false, []string{"webhook", "push", "poll"})
	reg("poll", false, []string{"poll"})
	reg("push", false, []string{"push", "webhook"})
	reg("none", false, []string{"push"}, WithoutPush())
	reg("noreplay", true, nil)
	reg("held", true, nil, WithPollWithoutReplay())
	reg("nopush", false, nil, WithoutPush())
	for canStream, want := range map[bool]string{
		true:  "all=poll,push three=poll,push poll=poll push=push noreplay=push held=poll,push nopush=poll",
		false: "all=poll three=poll poll=poll held=poll nopush=poll",
	} {
		var got []string
		for _, d := range listAs(t, s, "", "", canStream).Events {
			got = append(got, d.Name+"="+strings.Join(d.Delivery, ","))
		}
		wantStrings(t, fmt.Sprint("can stream ", canStream), got, strings.Fields(want)...)
	}
	for _, tc := range [][3]string{
		{wire.MethodPoll, `{"name":"push"}`, "poll"},
		{wire.MethodStream, `{"name":"all"}`, "push"}, // Call cannot carry it
		{wire.MethodSubscribe, `{"name":"all","delivery":{"mode":"webhook","url":"https://x.example/","secret":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}}`, "webhook"},
		{wire.MethodSubscribe, `{"name":"push","delivery":{"mode":"smoke"}}`, "smoke"},
	} {
		_, err := call(s, "ann", tc[0], tc[1])
		wantError(t, err, -32014, `{"feature":"deliveryMode","value":"`+tc[2]+`"}`)
	}
	_, err := openStream(s, "", `{"name":"poll"}`)
	wantError(t, err, -32014, `{"feature":"deliveryMode","value":"push"}`)
	r := streamRequest("", `{"name":"all"}`)
	r.CanStream = false
	_, gerr := s.inside().Open(t.Context(), r)
	wantError(t, asRPC(gerr), -32014, `{"feature":"deliveryMode","value":"push"}`)
}

// LIST-5, EVOL-1 to EVOL-3: what a change at run time does to live streams and to listeners.
func TestChangeInPlace(t *testing.T) {
	schema := func(s, old, new string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("%s is not in the schema", old)
		}
		return strings.Replace(s, old, new, 1)
	}
	for _, tc := range []struct {
		name, input, payload string
		end                  string // data of terminated; "" for a stream that goes on
	}{
		{"nothing", filterSchema, incidentSchema, ""},
		{"EVOL-3 new optional fields", schema(filterSchema, `"redact"`, `"new":{"type":"string"},"redact"`), schema(incidentSchema, `"secret"`, `"new":{"type":"string"},"secret"`), ""},
		{"EVOL-3 widened enum", schema(filterSchema, `"P3"`, `"P3","P4"`), incidentSchema, ""},
		{"EVOL-3 relaxed bound", filterSchema, schema(incidentSchema, `20`, `40`), ""},
		{"EVOL-2 removed", filterSchema, schema(incidentSchema, `"level":{"type":"number"},`, ``), `{"feature":"payloadSchema","reason":"schema_changed"}`},
		{"EVOL-2 retyped", filterSchema, schema(incidentSchema, `"level":{"type":"number"}`, `"level":{"type":"string"}`), `{"feature":"payloadSchema","reason":"schema_changed"}`},
		{"EVOL-2 narrowed enum", schema(filterSchema, `,"P3"`, ``), incidentSchema, `{"feature":"inputSchema","reason":"schema_changed"}`},
		{"EVOL-2 tightened", schema(filterSchema, `"additionalProperties":false`, `"additionalProperties":false,"required":["tag"]`), incidentSchema, `{"feature":"inputSchema","reason":"schema_changed"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Options{Operators: operators.New()})
				e := register(t, s, "e", Hooks[filterArgs, incident]{})
				changes := 0
				stop := s.inside().OnListChanged(func() { changes++ })
				parked := stream(t, s, `{"name":"e","arguments":{"severity":"P1"}}`)
				synctest.Wait()
				typ := incidentType("e")
				typ.InputSchema, typ.PayloadSchema = json.RawMessage(tc.input), json.RawMessage(tc.payload)
				// The rules change with it: readers must not be matched by the old ones.
				typ.Match = append([]events.MatchRule{{Argument: "tag", Path: "/tags"}}, filterRules[:4]...)
				again, err := Register(s, typ, Hooks[filterArgs, incident]{})
				if err != nil {
					t.Fatal(err)
				}
				if changes != 1 {
					t.Errorf("LIST-5: told %d times", changes)
				}
				stop()
				for i, x := range []*Emitter[incident]{e, again} {
					emit(t, x, incident{ID: fmt.Sprint("no", i), Severity: "P2"})
					emit(t, x, incident{ID: fmt.Sprint("yes", i), Severity: "P1"})
				}
				synctest.Wait()
				if tc.end == "" {
					wantStrings(t, "goes on", parked.shorts(), "active", "event yes0", "event yes1")
					return
				}
				fs := parked.frames()
				last := fs[len(fs)-1]
				if last.method != wire.NotificationTerminated || string(last.params.Error.Data) != tc.end || last.params.Error.Code != -32014 || len(fs) != 2 {
					t.Fatalf("%q, last %s", parked.shorts(), last.raw)
				}
				<-parked.done
				if changes != 1 {
					t.Error("told after stop")
				}
			})
		})
	}
}

// EVOL-1, EVOL-2, OCC-1: polls are not ended; arguments that are no longer valid are -32602; what
// the new payloadSchema may not fit is not replayed.
func TestPollThroughChange(t *testing.T) {
	s := newServer(t, Options{})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	c := pollFrom(t, s, nil, "").Cursor
	emit(t, e, incident{ID: "old", Severity: "P3"})
	typ := incidentType("e")
	typ.InputSchema = json.RawMessage(strings.Replace(filterSchema, `,"P3"`, ``, 1))
	if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
		t.Fatal(err)
	}
	_, err := call(s, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q,"arguments":{"severity":"P3"}}`, *c))
	wantError(t, err, -32602, "*")
	wantStrings(t, "still there", pollFrom(t, s, c, "").ids(), "old")
	typ.PayloadSchema = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
		t.Fatal(err)
	}
	if r := pollFrom(t, s, c, ""); len(r.Events) != 0 || !*r.Truncated {
		t.Fatalf("replayed over an incompatible payloadSchema: %v", r.ids())
	}
	if err := s.Remove("e"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("e"); !errors.Is(err, events.ErrNotFound) {
		t.Fatalf("second Remove: %v", err)
	}
	_, err = call(s, "", wire.MethodPoll, `{"name":"e"}`)
	wantError(t, err, -32011, `{"kind":"event"}`)
	if err := e.Emit(t.Context(), incident{ID: "x"}); !errors.Is(err, events.ErrNotFound) {
		t.Fatalf("Emit of a removed type: %v", err)
	}
	e = register(t, s, "e", Hooks[filterArgs, incident]{})
	c = pollFrom(t, s, nil, "").Cursor
	emit(t, e, incident{ID: "back"})
	wantStrings(t, "registered again", pollFrom(t, s, c, "").ids(), "back")
	typ.NoReplay = true
	if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err == nil {
		t.Fatal("CUR-3: replay was changed in place")
	}
}

// LIST-4, AUTH-1, AUTH-2, ERR-2: who sees and may have what, at the start and later.
func TestVisibilityAndAuthorization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hidden, refused, broken journal
		has := func(j *journal, p string) bool { return strings.Contains(strings.Join(j.lines(), " ")+" ", p+" ") }
		var order journal
		s := newServer(t, Options{
			Visible: func(_ context.Context, p, event string) bool { order.add("visible"); return !has(&hidden, p) },
			Authorize: func(_ context.Context, p, event string, args json.RawMessage) error {
				order.add("server " + string(args))
				if has(&broken, p) {
					panic("secret")
				}
				if has(&refused, p) {
					return errTest
				}
				return nil
			},
			Reauthorize: time.Minute,
		})
		register(t, s, "e", Hooks[filterArgs, incident]{
			Authorize: func(_ context.Context, p string, a *filterArgs) error {
				order.add("type")
				if a.Redact {
					return events.Forbidden("no redaction")
				}
				return nil
			},
			OnSubscribe: func(context.Context, Subscription, *filterArgs) error { order.add("subscribed"); return nil },
		})
		st, rerr := openStream(s, "eve", `{"name":"e","arguments":{"tag":"x","severity":"P1"}}`)
		if rerr != nil {
			t.Fatal(rerr)
		}
		st.Close()
		wantStrings(t, "ERR-2", order.lines(), "visible", `server {"severity":"P1","tag":"x"}`, "type", "subscribed")
		var all []*live
		for _, p := range []string{"ann", "bob", "cid", "dan"} {
			all = append(all, streamAs(t, s, p, `{"name":"e"}`))
		}
		hidden.add("ann")
		refused.add("bob")
		broken.add("cid")
		s.RefreshVisibility(context.Background())
		synctest.Wait()
		wantStrings(t, "hidden at once", all[0].shorts(), "active", "terminated")
		wantStrings(t, "not yet asked", all[1].shorts(), "active")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		for i, want := range []string{`-32011 {"kind":"event"}`, `-32012 `, "", ""} {
			fs := all[i].frames()
			last := fs[len(fs)-1]
			got := ""
			if last.method == wire.NotificationTerminated {
				got = fmt.Sprint(last.params.Error.Code, " ", string(last.params.Error.Data))
			}
			if got != want {
				t.Errorf("stream %d ended with %q, want %q", i, got, want)
			}
		}
		s.Reauthorize(context.Background(), "dan")
		s.Revoke(context.Background(), "dan", "other")
		synctest.Wait()
		if last := all[3].frames(); last[len(last)-1].method == wire.NotificationTerminated {
			t.Error("Reauthorize ended an allowed stream")
		}
		for _, tc := range []struct {
			principal, params string
			code              int64
			data              string
		}{
			{"ann", `{"name":"e"}`, -32011, `{"kind":"event"}`},
			{"ann", `{"name":"e","arguments":{"unknown":1}}`, -32011, `{"kind":"event"}`},
			{"bob", `{"name":"e"}`, -32012, ""},
			{"bob", `{"name":"e","arguments":{"severity":"P9"}}`, -32602, "*"},
			{"cid", `{"name":"e"}`, -32603, ""},
			{"dan", `{"name":"e","arguments":{"redact":true}}`, -32012, `{"reason":"no redaction"}`},
			{"dan", `{"arguments":{}}`, -32602, "*"},
			{"dan", `[1]`, -32602, "*"},
			{"dan", ``, -32602, "*"},
			{"dan", `{"Name":"e"}`, -32602, "*"},
			{"dan", `{"name":"e","name":"e"}`, -32602, "*"},
			{"dan", `{"name":"none"}`, -32011, `{"kind":"event"}`},
		} {
			for _, method := range []string{wire.MethodPoll, wire.MethodStream} {
				var err error
				if method == wire.MethodPoll {
					_, err = s.inside().Call(context.Background(), port.Request{Method: method, Principal: tc.principal, Params: json.RawMessage(tc.params)})
				} else {
					_, err = s.inside().Open(context.Background(), streamRequest(tc.principal, tc.params))
				}
				wantError(t, asRPC(err), tc.code, tc.data)
				if strings.Contains(string(asRPC(err).Data), "secret") {
					t.Error("ERR-4")
				}
			}
		}
		if len(listAs(t, s, "ann", "", true).Events) != 0 {
			t.Error("LIST-4: listed")
		}
	})
}

// PUSH-10: caps per principal and per type; a refusal leaves nothing, an abort frees at once.
func TestStreamCaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{MaxStreams: 3})
		register(t, s, "e", Hooks[filterArgs, incident]{}, WithMaxStreams(2))
		register(t, s, "f", Hooks[filterArgs, incident]{})
		a, _ := streamAs(t, s, "ann", `{"name":"e"}`), streamAs(t, s, "ann", `{"name":"e"}`)
		_, err := openStream(s, "ann", `{"name":"e"}`)
		wantError(t, err, -32013, `{"limit":"streams","max":2}`)
		streamAs(t, s, "ann", `{"name":"f"}`)
		_, err = openStream(s, "ann", `{"name":"f"}`)
		wantError(t, err, -32013, `{"limit":"streams","max":3}`)
		streamAs(t, s, "bob", `{"name":"e"}`)
		a.cancel()
		<-a.done
		streamAs(t, s, "ann", `{"name":"e"}`)
	})
}

// D2: the dialects.
func TestDialects(t *testing.T) {
	for _, tc := range []struct {
		codes    Codes
		declares bool
		want     int64
	}{{CodesSketch, true, -32011}, {CodesSEP, false, -32023}, {CodesAuto, false, -32011}, {CodesAuto, true, -32023}} {
		s := newServer(t, Options{Codes: tc.codes})
		_, err := s.inside().Call(t.Context(), port.Request{Method: wire.MethodPoll, Params: json.RawMessage(`{"name":"x"}`), DeclaresExtension: tc.declares})
		wantError(t, asRPC(err), tc.want, `{"kind":"event"}`)
		_, err = s.inside().Call(t.Context(), port.Request{Method: "events/other", DeclaresExtension: tc.declares})
		wantError(t, asRPC(err), -32601, "")
	}
}

// SUB-2, SUB-9 as far as they go without webhook: the order of checks.
func TestWebhookMethodsRefuse(t *testing.T) {
	s := newServer(t, Options{})
	register(t, s, "e", Hooks[filterArgs, incident]{})
	delivery := `"delivery":{"mode":"webhook","url":"https://x.example/","secret":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}`
	for _, tc := range []struct {
		principal, method, params string
		code                      int64
		data                      string
	}{
		{"", wire.MethodSubscribe, `{"name":"e"}`, -32602, "*"},
		{"", wire.MethodSubscribe, `{"name":"x",` + delivery + `}`, -32012, ""},
		{"ann", wire.MethodSubscribe, `{"name":"x",` + delivery + `}`, -32011, `{"kind":"event"}`},
		{"ann", wire.MethodSubscribe, `{"name":"e",` + delivery + `}`, -32014, `{"feature":"deliveryMode","value":"webhook"}`},
		{"", wire.MethodUnsubscribe, `{"name":"e",` + delivery + `}`, -32012, ""},
		{"ann", wire.MethodUnsubscribe, `{"name":"e",` + delivery + `}`, -32011, `{"kind":"subscription"}`},
	} {
		_, err := call(s, tc.principal, tc.method, tc.params)
		wantError(t, err, tc.code, tc.data)
	}
}
