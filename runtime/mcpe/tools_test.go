package mcpe_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func (p *peer) tools() map[string]map[string]json.RawMessage {
	p.T.Helper()
	var l struct{ Tools []map[string]json.RawMessage }
	if err := json.Unmarshal(p.RPC("tools/list", `{}`).Result, &l); err != nil {
		p.T.Fatal(err)
	}
	all := map[string]map[string]json.RawMessage{}
	for _, t := range l.Tools {
		var name string
		_ = json.Unmarshal(t["name"], &name)
		all[name] = t
	}
	return all
}

var toolNames = []string{"events_list", "events_pause", "events_resume", "events_subscribe", "events_unsubscribe", "events_update"}

// MCPE-TOOL-1: names, schemas, descriptions, annotations; the event types with their descriptions
// and the wildcards that exist.
func TestTools(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		all := p.tools()
		for _, name := range toolNames {
			tool := all[name]
			if tool == nil || len(tool["description"]) < 10 {
				t.Fatalf("no tool %s", name)
			}
			for _, member := range []string{"inputSchema", "outputSchema"} {
				if _, err := validate.Compile(tool[member]); err != nil {
					t.Errorf("%s of %s: %v", member, name, err)
				}
			}
			var output struct {
				Type       string
				Required   []string
				Properties map[string]json.RawMessage
			}
			if json.Unmarshal(tool["outputSchema"], &output) != nil || output.Type != "object" || output.Required != nil || output.Properties["error"] == nil {
				t.Errorf("MCPE-TOOL-2: outputSchema of %s is %s", name, tool["outputSchema"])
			}
		}
		input := string(all["events_subscribe"]["inputSchema"])
		for _, text := range []string{`{"const":"github.push","description":"About github.push."}`, `"const":"github.*"`, `"const":"github.issue.*"`, `"const":"slack.*"`, `"const":"*"`} {
			if !strings.Contains(input, text) {
				t.Errorf("the schema does not hold %s", text)
			}
		}
		if strings.Contains(input, "hidden") || strings.Contains(input, "handler") {
			t.Errorf("the schema shows what is not for MCPE: %s", input)
		}
		for name, hint := range map[string]string{"events_list": `"readOnlyHint":true`, "events_unsubscribe": `"destructiveHint":true`, "events_pause": `"idempotentHint":true`} {
			if !strings.Contains(string(all[name]["annotations"]), hint) {
				t.Errorf("annotations of %s: %s", name, all[name]["annotations"])
			}
		}
		g.register("jira.issue", nil)
		sleep(time.Second) // the SDK collects changes
		if len(p.notifications("notifications/tools/list_changed")) == 0 {
			t.Error("a new type changes the tools and nobody is told")
		}
		if !strings.Contains(string(p.tools()["events_subscribe"]["inputSchema"]), "jira.*") {
			t.Error("the new type is not in the schema")
		}
	})
}

// MCPE-TOOL-1, MCPE-CAP-1: what is switched off is neither registered nor advertised, and refused.
func TestSwitchedOff(t *testing.T) {
	o := mcpe.Options{WithoutPause: true, WithoutCron: true, WithoutExpiration: true, MaxActive: 5}
	bubble(t, o, func(g *rig) {
		p := g.dial(legacy)
		all := p.tools()
		if all["events_pause"] != nil || all["events_resume"] != nil || all["events_subscribe"] == nil {
			t.Errorf("tools %v", all)
		}
		p.fails("events_subscribe", `{"delivery":`+cron("@hourly", "")+`}`, -32602, "delivery.channels")
		p.fails("events_subscribe", `{"expiresAt":"2030-01-01T00:00:00Z"}`, -32602, "expiresAt")
		c := g.capability(legacy)
		want := `{"protocolVersion":"2025-01-01","protocolName":"mcpe","serverInfo":{"name":"test","version":"7"},` +
			`"subscriptions":{"maxActive":5,"maxFiltersPerSubscription":100,"supportsPause":false,"supportsExpiration":false,"supportsBatching":true},` +
			`"filters":{"supportsWildcardTypes":true,"supportsTagFiltering":true,"supportsPriorityFiltering":true},` +
			`"delivery":{"supportedChannels":["realtime","scheduled"],"supportedPriorities":["low","normal","high","critical"],"supportsMultiChannel":true},` +
			`"scheduling":{"cronEnabled":false,"scheduledEnabled":true,"maxScheduledPerClient":5}}`
		if c != want {
			t.Errorf("capability\n%s, want\n%s", c, want)
		}
		if m := g.capability(modern); m != want {
			t.Errorf("capability by server/discover\n%s", m)
		}
	})
}

// capability is the capability object of the handshake.
func (g *rig) capability(version string) string {
	g.t.Helper()
	p := g.dial("")
	p.Version = version
	method, params := "server/discover", `{}`
	if version == legacy {
		method, params = "initialize", `{"protocolVersion":"`+legacy+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`
	}
	var r struct {
		Capabilities struct {
			Experimental struct{ Mcpe json.RawMessage }
		}
	}
	res := p.RPC(method, params)
	if res.Error != nil || json.Unmarshal(res.Result, &r) != nil {
		g.t.Fatal(res.Error)
	}
	return string(r.Capabilities.Experimental.Mcpe)
}

// MCPE-TOOL-3: lenient input.
func TestLenientInput(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		for _, args := range []string{`{}`, `null`, `{"filter":null,"delivery":null,"handler":null,"expiresAt":null}`, `{"filter":{},"delivery":{}}`,
			`{"filter":{"eventTypes":["github.*"],"extra":1},"delivery":{"channels":["realtime","realtime"],"more":{}},"unknown":[]}`,
			`{"delivery":{"channels":["cron"],"cronSchedule":{"expression":"@daily","maxEventsPerDelivery":1e1}}}`,
			`{"expiresAt":"2030-01-01t00:00:00.123456789+05:30"}`,
			`{"filter":"{\"eventTypes\":[\"github.*\"]}","delivery":{"channels":"[\"cron\"]","cronSchedule":{"expression":"@daily","maxEventsPerDelivery":"10","aggregateEvents":"true"}}}`} { // HOST-1
			p.subscribe(args)
		}
		res := p.RPC("tools/call", `{"name":"events_subscribe"}`)
		if res.Error != nil || strings.Contains(string(res.Result), `"isError":true`) {
			t.Errorf("without arguments: %s %v", res.Result, res.Error)
		}
	})
}

// MCPE-TOOL-6: what is refused, with the field that is at fault.
func TestRefusedInput(t *testing.T) {
	bubble(t, mcpe.Options{MaxFilters: 4}, func(g *rig) {
		p := g.dial(legacy)
		for args, field := range map[string]string{
			`[]`:                                                        "arguments",
			`{"filter":[]}`:                                             "filter",
			`{"filter":{"eventTypes":[1]}}`:                             "filter.eventTypes",
			`{"filter":{"eventTypes":["git*"]}}`:                        "filter.eventTypes",
			`{"filter":{"eventTypes":["*.push"]}}`:                      "filter.eventTypes",
			`{"filter":{"eventTypes":["a.*.b"]}}`:                       "filter.eventTypes",
			`{"filter":{"eventTypes":["**"]}}`:                          "filter.eventTypes",
			`{"filter":{"eventTypes":[".*"]}}`:                          "filter.eventTypes",
			`{"filter":{"eventTypes":[""]}}`:                            "filter.eventTypes",
			`{"filter":{"eventTypes":["a b"]}}`:                         "filter.eventTypes",
			`{"filter":{"priority":["urgent"]}}`:                        "filter.priority",
			`{"filter":{"tags":"a","priority":{}}}`:                     "filter.priority",
			`{"filter":{"tags":["a","b","c","d","e"]}}`:                 "maxFiltersPerSubscription is 4",
			`{"delivery":7}`:                                            "delivery",
			`{"delivery":{"channels":[]}}`:                              "delivery.channels",
			`{"delivery":{"channels":["email"]}}`:                       "delivery.channels",
			`{"delivery":{"channels":["cron"]}}`:                        "delivery.cronSchedule",
			`{"delivery":{"channels":["scheduled"]}}`:                   "delivery.scheduledDelivery",
			`{"delivery":{"cronSchedule":{"expression":"61 * * * *"}}}`: "delivery.cronSchedule.expression",
			`{"delivery":{"cronSchedule":{"expression":"* * 30 2 *"}}}`: "delivery.cronSchedule.expression",
			`{"delivery":{"cronSchedule":{}}}`:                          "delivery.cronSchedule.expression",
			`{"delivery":{"cronSchedule":{"expression":"@daily","timezone":"Mars/Base"}}}`:        "delivery.cronSchedule.timezone",
			`{"delivery":{"cronSchedule":{"expression":"@daily","timezone":"../../etc/passwd"}}}`: "delivery.cronSchedule.timezone",
			`{"delivery":{"cronSchedule":{"expression":"@daily","timezone":"Local"}}}`:            "delivery.cronSchedule.timezone",
			`{"delivery":{"cronSchedule":{"expression":"@daily","maxEventsPerDelivery":0}}}`:      "delivery.cronSchedule.maxEventsPerDelivery",
			`{"delivery":{"cronSchedule":{"expression":"@daily","aggregateEvents":"yes"}}}`:       "delivery.cronSchedule.aggregateEvents",
			`{"delivery":{"scheduledDelivery":{}}}`:                                               "delivery.scheduledDelivery.deliverAt",
			`{"delivery":{"scheduledDelivery":{"deliverAt":"2030-01-01 10:00"}}}`:                 "delivery.scheduledDelivery.deliverAt",
			`{"delivery":{"scheduledDelivery":{"deliverAt":"2030-01-01T10:00:00"}}}`:              "delivery.scheduledDelivery.deliverAt",
			`{"expiresAt":"tomorrow"}`:                                   "expiresAt",
			`{"expiresAt":1}`:                                            "expiresAt",
			`{"handler":{"type":"bash","command":"id"}}`:                 "handler.type",
			`{"handler":{"type":"webhook","url":"https://example.com"}}`: "handler.type",
			`{"handler":{"type":"agent"}}`:                               "handler.type",
			`{"handler":{}}`:                                             "handler.type",
		} {
			p.fails("events_subscribe", args, -32602, "InvalidParams", field)
		}
		p.fails("events_list", `{"status":"gone"}`, -32602, "status")
		p.fails("events_pause", `{}`, -32602, "subscriptionId")
		if l := p.list(`{}`); len(l) != 0 {
			t.Errorf("a refused call left %+v", l)
		}
		if subs := g.es.Subscriptions(); len(subs) != 0 {
			t.Errorf("a refused call left %+v", subs)
		}
	})
}

// MCPE-TOOL-2, MCPE-TOOL-4: an unknown id.
func TestUnknownSubscription(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		id := `{"subscriptionId":"550e8400-e29b-41d4-a716-446655440000"}`
		for _, tool := range []string{"events_unsubscribe", "events_pause", "events_resume", "events_update"} {
			r := p.fails(tool, id, -32001, "SubscriptionNotFound")
			if has := strings.Contains(string(r.Structured), `"success":false`); has != (tool == "events_unsubscribe") {
				t.Errorf("%s: %s", tool, r.Structured)
			}
		}
	})
}

// MCPE-TOOL-5: the limit counts active subscriptions per client.
func TestLimit(t *testing.T) {
	bubble(t, mcpe.Options{MaxActive: 2}, func(g *rig) {
		p, q := g.dial(legacy), g.dial(legacy)
		s := p.subscribe(`{}`)
		p.subscribe(`{}`)
		p.fails("events_subscribe", `{}`, -32002, "SubscriptionLimitReached")
		q.subscribe(`{}`)
		p.ok("events_pause", `{"subscriptionId":"`+s.ID+`"}`, nil)
		p.subscribe(`{}`)
		p.fails("events_resume", `{"subscriptionId":"`+s.ID+`"}`, -32002, "SubscriptionLimitReached")
	})
}

// MCPE-ID-1: nobody sees or changes a subscription of another client, session or principal.
func TestIsolation(t *testing.T) {
	check := func(g *rig, p, q *peer) {
		s := p.subscribe(`{}`)
		if l := q.list(`{}`); len(l) != 0 {
			t.Errorf("another client sees %+v", l)
		}
		for _, tool := range []string{"events_unsubscribe", "events_pause", "events_resume", "events_update"} {
			q.fails(tool, `{"subscriptionId":"`+s.ID+`"}`, -32001)
		}
		g.emit("github.push", 1)
		p.want("event(1)")
		q.want("")
	}
	t.Run("sessions", func(t *testing.T) {
		bubble(t, mcpe.Options{}, func(g *rig) { check(g, g.dial(legacy), g.dial(legacy)) })
	})
	t.Run("principals", func(t *testing.T) {
		so := server.Options{}
		var current string
		so.Principal = func(context.Context, *mcp.RequestExtra) string { return current }
		bubbleWith(t, so, mcpe.Options{}, func(g *rig) {
			p, q := g.dial(legacy), g.dial(legacy)
			current = "ann"
			s := p.subscribe(`{}`)
			current = "bob"
			if l := q.list(`{}`); len(l) != 0 {
				t.Errorf("another principal sees %+v", l)
			}
			q.fails("events_unsubscribe", `{"subscriptionId":"`+s.ID+`"}`, -32001)
			g.emit("github.push", 1)
			p.want("event(1)")
			q.want("")
			// The same principal by another session: its own again, delivered where it was made.
			current = "ann"
			if l := q.list(`{}`); len(l) != 1 || l[0].ID != s.ID {
				t.Errorf("list %+v", l)
			}
			p.HangUp()
			sleep(time.Second)
			g.emit("github.push", 2)
			q.want("event(2)")
		})
	})
}

// Specification 11.2, 11.4: who may not see a type does not hear of it, who may not subscribe is
// refused, and Transform filters what each principal gets.
func TestAuthorization(t *testing.T) {
	so := server.Options{
		Visible: func(_ context.Context, _, event string) bool { return event != "slack.message" },
		Authorize: func(_ context.Context, _, event string, _ json.RawMessage) error {
			if event == "github.push" {
				return events.Forbidden("")
			}
			return nil
		},
	}
	bubbleWith(t, so, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		if strings.Contains(string(p.tools()["events_subscribe"]["inputSchema"]), "slack") {
			t.Error("an invisible type is in the schema")
		}
		p.fails("events_subscribe", `{"filter":{"eventTypes":["github.push"]}}`, -32004, "Unauthorized")
		s := p.subscribe(`{"filter":{"eventTypes":["slack.message"]}}`)
		if want := []string{"No event type matches slack.message at present; the event types are github.push, github.issue.opened."}; !slices.Equal(s.Warnings, want) { // HOST-3
			t.Errorf("warnings %q", s.Warnings)
		}
		p.subscribe(`{}`)
		g.emit("github.push", 1)
		g.emit("slack.message", 2)
		g.emit("github.issue.opened", 3)
		p.want("event(3)")
		redacted, err := server.Register(g.es, typeOf("audit.entry", nil), server.Hooks[arguments, payload]{
			Transform: func(_ context.Context, p *payload, _ *arguments) error { p.Text = ""; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		p.got()
		if err := redacted.Emit(t.Context(), payload{N: 4, Text: "secret"}); err != nil {
			t.Fatal(err)
		}
		all := p.notifications("events/event")
		if len(all) != 1 || strings.Contains(string(all[0].Params), "secret") {
			t.Errorf("notified of %v", all)
		}
	})
}

// All adapters switched on change nothing in what a client of events/* sees.
func TestEventsClientsSeeNothing(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		var l struct{ Events []struct{ Name string } }
		if err := json.Unmarshal(p.RPC("events/list", `{}`).Result, &l); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range l.Events {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, []string{"github.push", "github.issue.opened", "slack.message", "hidden.type"}) {
			t.Errorf("types %v", names)
		}
		p.subscribe(`{}`)
		p.Start("events/stream", `{"name":"github.push","cursor":null}`)
		p.got()
		g.emit("github.push", 1)
		stream := p.notifications("notifications/events/event")
		if len(stream) != 1 || len(p.notifications("events/event")) != 1 {
			t.Error("one Emit reaches both")
		}
	})
}
