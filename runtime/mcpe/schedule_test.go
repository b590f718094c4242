package mcpe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// MCPE-DEL-2: one batch a tick, oldest first, none when there is nothing.
func TestCron(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
		g.emit("github.push", 1, 2)
		g.emit("slack.message", 3)
		p.want("")
		if l := p.list(`{}`); len(l) != 1 || *l[0].PendingEvents != 3 || l[0].NextRun != "2000-01-01T01:00:00.000Z" {
			t.Errorf("list %+v", l)
		}
		sleep(time.Hour)
		got := p.got()
		if got != "batch(1,2,3)" && got != "batch(1,3,2)" && got != "batch(3,1,2)" {
			t.Errorf("notified of %q", got)
		}
		sleep(time.Hour)
		p.want("")
		g.emit("github.push", 4)
		sleep(time.Hour)
		p.want("batch(4)")
		if l := p.list(`{}`); *l[0].PendingEvents != 0 {
			t.Errorf("list %+v", l)
		}
	})
}

// MCPE-DEL-2: six fields, several batches when there are more events than one may have, none lost.
func TestCronBatches(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":` + cron("*/30 * * * * *", `,"maxEventsPerDelivery":2`) + `}`)
		g.emit("github.push", 1, 2, 3, 4, 5)
		sleep(30 * time.Second)
		p.want("batch(1,2) batch(3,4) batch(5)")
	})
}

// MCPE-DEL-2: without aggregation, single notifications at the tick.
func TestCronWithoutAggregation(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":` + cron("* * * * *", `,"aggregateEvents":false`) + `}`)
		g.emit("github.push", 1, 2)
		p.want("")
		sleep(time.Minute)
		p.want("event(1) event(2)")
	})
}

// MCPE-DEL-2: beyond the bound of a queue the oldest are dropped and counted.
func TestQueueBound(t *testing.T) {
	bubble(t, mcpe.Options{MaxQueue: 3}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
		g.emit("github.push", 1, 2, 3, 4, 5)
		sleep(time.Hour)
		p.want("batch(3,4,5)")
		if got := g.a.Stats().Dropped; got != 2 {
			t.Errorf("%d dropped", got)
		}
	})
}

// MCPE-DEL-2: daylight saving on a real zone, by the clock of the scheduler: the bubble's begins in
// the year 2000, whose spring gap was on March 26 and autumn overlap on October 29 in Berlin.
func TestCronDaylightSaving(t *testing.T) {
	for _, c := range []struct {
		to   time.Time
		want []string
	}{
		{time.Date(2000, 3, 25, 12, 0, 0, 0, time.UTC), []string{"03-26 03:30 CEST", "03-27 02:30 CEST"}},
		{time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC), []string{"10-29 02:30 CEST", "10-30 02:30 CET"}},
	} {
		t.Run(c.want[0], func(t *testing.T) {
			bubble(t, mcpe.Options{}, func(g *rig) {
				berlin, err := time.LoadLocation("Europe/Berlin")
				if err != nil {
					t.Fatal(err)
				}
				sleep(time.Until(c.to))
				p := g.dial(legacy)
				p.subscribe(`{"delivery":` + cron("30 2 * * *", `,"timezone":"Europe/Berlin"`) + `}`)
				n := 0
				var ran []string
				for range 48 * 4 {
					n++
					g.emit("github.push", n)
					sleep(15 * time.Minute)
					if p.got() != "" {
						ran = append(ran, time.Now().In(berlin).Format("01-02 15:04 MST"))
					}
				}
				if fmt.Sprint(ran) != fmt.Sprint(c.want) {
					t.Errorf("ran at %v, want %v", ran, c.want)
				}
			})
		})
	}
}

// MCPE-DEL-3: one delivery at its time, then the subscription expires and says so; far dates work.
func TestScheduled(t *testing.T) {
	for _, after := range []time.Duration{time.Minute, 26 * 24 * time.Hour, 400 * 24 * time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			bubbleWith(t, server.Options{Reauthorize: -1}, mcpe.Options{}, func(g *rig) {
				p := g.dial(legacy)
				at := time.Now().Add(after)
				s := p.subscribe(`{"delivery":{"channels":["scheduled"],"scheduledDelivery":{"deliverAt":"` + at.In(time.FixedZone("", 3600)).Format(time.RFC3339) + `"}}}`)
				g.emit("github.push", 1, 2)
				sleep(after - time.Second)
				p.want("")
				sleep(time.Second)
				p.mu.Lock()
				expired := p.messages[len(p.messages)-1].Params
				p.mu.Unlock()
				p.want("batch(1,2) subscription_expired()")
				var params struct{ SubscriptionID, ExpiredAt string }
				if json.Unmarshal(expired, &params) != nil || params.SubscriptionID != s.ID || params.ExpiredAt != at.UTC().Format("2006-01-02T15:04:05.000Z") {
					t.Errorf("expired %s", expired)
				}
				g.emit("github.push", 3)
				sleep(time.Hour)
				p.want("")
				if l := p.list(`{"status":"expired"}`); len(l) != 1 || l[0].Status != "expired" || l[0].NextRun != "" {
					t.Errorf("list %+v", l)
				}
			})
		})
	}
}

// MCPE-DEL-3: a past time acts at once, after the reply; without autoExpire the subscription stays
// and delivers nothing more.
func TestScheduledInThePast(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":{"scheduledDelivery":{"deliverAt":"1999-01-01T00:00:00+02:00"}}}`)
		p.want("subscription_expired()")
		p.subscribe(`{"delivery":{"scheduledDelivery":{"deliverAt":"1999-01-01T00:00:00Z","autoExpire":false,"aggregateEvents":false}}}`)
		p.want("")
		g.emit("github.push", 1)
		sleep(time.Hour)
		p.want("")
		if l := p.list(`{"status":"active"}`); len(l) != 1 || *l[0].PendingEvents != 0 {
			t.Errorf("list %+v", l)
		}
	})
}

// MCPE-DEL-4: at expiresAt the state changes, the notification goes out and jobs stop; specification
// 7.3.
func TestExpiry(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		at := time.Now().Add(90 * time.Minute).UTC().Format(time.RFC3339)
		s := p.subscribe(`{"delivery":{"channels":["cron","realtime"],"cronSchedule":{"expression":"@hourly"}},"expiresAt":"` + at + `"}`)
		if s.ExpiresAt != "2000-01-01T01:30:00.000Z" {
			t.Errorf("expiresAt %q", s.ExpiresAt)
		}
		g.emit("github.push", 1)
		sleep(time.Hour)
		p.want("event(1) batch(1)")
		g.emit("github.push", 2)
		sleep(30 * time.Minute)
		p.want("event(2) subscription_expired()")
		sleep(time.Hour)
		p.want("")
		for _, tool := range []string{"events_resume", "events_pause", "events_update"} {
			p.fails(tool, `{"subscriptionId":"`+s.ID+`"}`, -32602, "expired") // MCPE-DEL-5
		}
		p.ok("events_unsubscribe", `{"subscriptionId":"`+s.ID+`"}`, nil)
	})
}

// MCPE-DEL-5: pause drops realtime events and keeps collected ones; resume delivers them.
func TestPauseAndResume(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		s := p.subscribe(`{"delivery":{"channels":["realtime","cron"],"cronSchedule":{"expression":"@hourly"}}}`)
		id := `{"subscriptionId":"` + s.ID + `"}`
		g.emit("github.push", 1)
		p.want("event(1)")
		var r struct {
			Success                bool
			Status, SubscriptionID string
		}
		p.ok("events_pause", id, &r)
		if !r.Success || r.Status != "paused" || r.SubscriptionID != s.ID {
			t.Errorf("pause gives %+v", r)
		}
		p.ok("events_pause", id, nil) // again: no harm
		g.emit("github.push", 2)
		sleep(2 * time.Hour)
		p.want("")
		if l := p.list(`{"status":"paused"}`); len(l) != 1 || *l[0].PendingEvents != 1 {
			t.Errorf("list %+v", l)
		}
		p.ok("events_resume", id, &r)
		if !r.Success || r.Status != "active" {
			t.Errorf("resume gives %+v", r)
		}
		p.want("batch(1)")
		g.emit("github.push", 3)
		p.want("event(3)")
		sleep(time.Hour)
		p.want("batch(3)")
	})
}

// MCPE-TOOL-3: updates in the document's form and at top level; what is given replaces the old value
// whole, what is absent stays; null clears the expiry.
func TestUpdate(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		s := p.subscribe(`{"filter":{"eventTypes":["github.*"],"tags":["ops"]},"expiresAt":"` + at + `"}`)
		g.emit("github.push", 1)
		p.want("")
		u := &subscription{}
		p.ok("events_update", `{"subscriptionId":"`+s.ID+`","updates":{"filter":{"eventTypes":["github.push"]}},"filter":{"eventTypes":["x"]}}`, u)
		if string(u.Filter) != `{"eventTypes":["github.push"]}` || u.ExpiresAt != s.ExpiresAt || u.ID != s.ID {
			t.Errorf("updated %+v", u)
		}
		g.emit("github.push", 2)
		p.want("event(2)")
		u = &subscription{}
		p.ok("events_update", `{"subscriptionId":"`+s.ID+`","delivery":`+cron("@hourly", "")+`,"expiresAt":null}`, u)
		if u.ExpiresAt != "" {
			t.Errorf("updated %+v", u)
		}
		g.emit("github.push", 3)
		p.want("")
		sleep(time.Hour)
		p.want("batch(3)")
		p.ok("events_update", `{"subscriptionId":"`+s.ID+`","delivery":{}}`, u)
		g.emit("github.push", 4)
		p.want("event(4)")
		p.fails("events_update", `{"subscriptionId":"`+s.ID+`","updates":{"delivery":{"channels":[]}}}`, -32602, "updates.delivery.channels")
	})
}

// MCPE-TOOL-3: a refused update leaves the delivery, too, with its schedules and what waits for them.
func TestRefusedUpdateKeepsDelivery(t *testing.T) {
	so := server.Options{Authorize: func(_ context.Context, _, event string, _ json.RawMessage) error {
		if event == "slack.message" {
			return events.Forbidden("")
		}
		return nil
	}}
	bubbleWith(t, so, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		s := p.subscribe(`{"filter":{"eventTypes":["github.push"]},"delivery":` + cron("@hourly", "") + `}`)
		was := p.list(`{}`)
		g.emit("github.push", 1)
		p.want("")
		at := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		for _, delivery := range []string{`{"channels":["realtime"]}`, `{"channels":["scheduled"],"scheduledDelivery":{"deliverAt":"` + at + `"}}`, cron("@daily", "")} {
			sleep(time.Minute)
			p.fails("events_update", `{"subscriptionId":"`+s.ID+`","updates":{"filter":{"eventTypes":["slack.message"]},"delivery":`+delivery+`}}`, -32004)
			now := p.list(`{}`)
			now[0].PendingEvents = was[0].PendingEvents
			if !reflect.DeepEqual(now, was) {
				t.Errorf("a refused update left %+v of %+v", now, was)
			}
		}
		p.want("")
		sleep(time.Hour)
		p.want("batch(1)")
	})
}

// MCPE-TOOL-3: null drops the handler, in both forms; a refused update leaves filter, handler and expiry.
func TestUpdateHandler(t *testing.T) {
	o := mcpe.Options{Agent: &mcpe.AgentOptions{Handle: func(context.Context, mcpe.AgentRequest) error { return nil }}}
	so := server.Options{Authorize: func(_ context.Context, _, event string, _ json.RawMessage) error {
		if event == "slack.message" {
			return events.Forbidden("")
		}
		return nil
	}}
	bubbleWith(t, so, o, func(g *rig) {
		p := g.dial(legacy)
		if input := string(p.tools()["events_update"]["inputSchema"]); strings.Count(input, `"type":["object","null"]`) != 2 {
			t.Errorf("the schema does not say that the handler may be null: %s", input)
		}
		const agent = `{"type":"agent","instructions":"one"}`
		at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		s := p.subscribe(`{"filter":{"eventTypes":["github.push"]},"handler":` + agent + `,"expiresAt":"` + at + `"}`)
		p.fails("events_update", `{"subscriptionId":"`+s.ID+`","updates":{"filter":{"eventTypes":["slack.message"]},"handler":null,"expiresAt":null}}`, -32004)
		if l := p.list(`{}`); len(l) != 1 || string(l[0].Handler) != string(s.Handler) || l[0].ExpiresAt != s.ExpiresAt || string(l[0].Filter) != string(s.Filter) {
			t.Errorf("a refused update left %+v of %+v", l, s)
		}
		for form, none := range map[string]string{`"updates":{"handler":%s}`: `"updates":{"handler":null}`, `"handler":%s`: `"handler":null`} {
			u := &subscription{}
			p.ok("events_update", `{"subscriptionId":"`+s.ID+`",`+none+`}`, u)
			if u.Handler != nil || u.ExpiresAt != s.ExpiresAt {
				t.Errorf("%s: %+v", none, u)
			}
			g.emit("github.push", len(form))
			synctest.Wait()
			p.ok("events_update", `{"subscriptionId":"`+s.ID+`",`+fmt.Sprintf(form, agent)+`}`, u)
			if string(u.Handler) != string(s.Handler) {
				t.Errorf("%s: handler %s, want %s", form, u.Handler, s.Handler)
			}
		}
		synctest.Wait()
		if n := g.a.Stats().Handled; n != 0 {
			t.Errorf("%d events were handled without a handler", n)
		}
		g.emit("github.push", 2)
		synctest.Wait()
		if n := g.a.Stats().Handled; n != 1 {
			t.Errorf("%d events were handled, want 1", n)
		}
	})
}

// MCPE-RATE-1: beyond a client's rate realtime notifications are dropped and counted, collected ones
// wait; a refused call says when to try again.
func TestRates(t *testing.T) {
	bubble(t, mcpe.Options{NotifyRate: mcpe.Rate{PerSecond: 1, Burst: 2}, SubscribeRate: mcpe.Rate{PerSecond: 0.5, Burst: 2}}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{}`)
		g.emit("github.push", 1, 2, 3)
		p.want("event(1) event(2)")
		if got := g.a.Stats().Dropped; got != 1 {
			t.Errorf("%d dropped", got)
		}
		p.subscribe(`{"filter":{"eventTypes":["slack.*"]},"delivery":` + cron("* * * * *", `,"aggregateEvents":false`) + `}`)
		r := p.fails("events_subscribe", `{}`, -32602, `"name":"rate_limited"`, "retryAfterMs")
		var content struct{ Error struct{ RetryAfterMs int64 } }
		_ = json.Unmarshal(r.Structured, &content)
		sleep(time.Duration(content.Error.RetryAfterMs) * time.Millisecond)
		q := p.subscribe(`{"filter":{"eventTypes":["none"]}}`)
		if len(q.Warnings) != 1 {
			t.Errorf("warnings %q", q.Warnings)
		}
		for n := range 5 {
			g.emits["slack.message"].Emit(t.Context(), payload{N: n})
		}
		p.got()
		sleep(time.Minute - time.Duration(time.Now().Second())*time.Second)
		sleep(10 * time.Second)
		if got := p.got(); got != "event(0) event(1) event(2) event(3) event(4)" {
			t.Errorf("notified of %q", got)
		}
	})
}

// MCPE-RATE-1: publication per type.
func TestPublishRate(t *testing.T) {
	bubble(t, mcpe.Options{PublishRate: mcpe.Rate{PerSecond: 1, Burst: 2}}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":{"channels":["realtime","cron"],"cronSchedule":{"expression":"@hourly"}}}`)
		g.emit("github.push", 1, 2, 3)
		g.emit("slack.message", 4)
		if got := p.got(); len(got) != len("event(1) event(2) event(4)") {
			t.Errorf("notified of %q", got)
		}
		sleep(time.Hour)
		if got := p.got(); len(got) != len("batch(1,2,3,4)") {
			t.Errorf("notified of %q", got)
		}
	})
}
