package mcpe_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// MCPE-NOTE-1, MCPE-NOTE-2, MCPE-DEL-1, specification 7.1: an event arrives bare, at once, with the
// metadata of its type and its source's id; its own id is a UUID v4.
func TestRealtime(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		s := p.subscribe(`{"filter":{"eventTypes":["github.*"]},"delivery":{"channels":["realtime"]}}`)
		g.emit("github.issue.opened", 1)
		g.emit("slack.message", 2)
		all := p.notifications("events/event")
		if len(all) != 1 {
			t.Fatalf("%d notifications", len(all))
		}
		var params struct {
			SubscriptionID string
			Event          event
		}
		if err := json.Unmarshal(all[0].Params, &params); err != nil {
			t.Fatal(err)
		}
		e := params.Event
		if params.SubscriptionID != s.ID || !uuid4.MatchString(e.ID) || e.Type != "github.issue.opened" || e.Data.N != 1 ||
			e.Metadata.SourceEventID != "github.issue.opened-1" || e.Metadata.Priority != "high" || strings.Join(e.Metadata.Tags, " ") != "ops bugs" {
			t.Errorf("event %s", all[0].Params)
		}
		if _, err := time.Parse(time.RFC3339Nano, e.Metadata.Timestamp); err != nil {
			t.Error(err)
		}
		if s.ID != s.SubscriptionID || !uuid4.MatchString(s.ID) || s.Status != "active" || s.ClientID == "" {
			t.Errorf("subscription %+v", s)
		}
	})
}

// MCPE-MATCH-1, MCPE-MATCH-2: AND over fields, OR within.
func TestMatching(t *testing.T) {
	for _, c := range []struct{ filter, want string }{
		{`{}`, "event(1) event(2) event(3)"},
		{`{"eventTypes":[],"tags":[],"priority":[]}`, "event(1) event(2) event(3)"},
		{`{"eventTypes":["*"]}`, "event(1) event(2) event(3)"},
		{`{"eventTypes":["github.*"]}`, "event(1) event(2)"},
		{`{"eventTypes":["github.issue.*"]}`, "event(2)"},
		{`{"eventTypes":["github"]}`, ""},
		{`{"eventTypes":["github.push.*"]}`, ""},
		{`{"eventTypes":["slack.message","github.push"]}`, "event(1) event(3)"},
		{`{"eventTypes":"slack.message"}`, "event(3)"},
		{`{"eventTypes":["hidden.type"]}`, ""},
		{`{"priority":["high","low"]}`, "event(2) event(3)"},
		{`{"priority":["normal"]}`, "event(1)"},
		{`{"tags":["bugs","other"]}`, "event(2)"},
		{`{"tags":["other"]}`, ""},
		{`{"eventTypes":["github.*"],"priority":["low"]}`, ""},
		{`{"eventTypes":["github.*"],"priority":["high"],"tags":["ops"]}`, "event(2)"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			bubble(t, mcpe.Options{}, func(g *rig) {
				p := g.dial(legacy)
				p.subscribe(`{"filter":` + c.filter + `}`)
				g.emit("github.push", 1)
				synctest.Wait()
				g.emit("github.issue.opened", 2)
				synctest.Wait()
				g.emit("slack.message", 3)
				g.emit("hidden.type", 4)
				p.want(c.want)
			})
		})
	}
}

// MCPE-NOTE-3: no notification about a subscription comes before the reply with its id, however busy
// its type is, and none is lost in between.
func TestNothingBeforeTheReply(t *testing.T) {
	bubble(t, mcpe.Options{NotifyRate: mcpe.Rate{PerSecond: -1}}, func(g *rig) {
		p := g.dial(legacy)
		first := p.subscribe(`{}`) // the types are followed already
		for round := range 20 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				for n := range 20 {
					g.emit("github.push", round*100+n)
				}
			}()
			p.mu.Lock()
			from := len(p.order)
			p.mu.Unlock()
			s := p.subscribe(`{"expiresAt":"1999-01-01T00:00:00Z"}`)
			<-done
			synctest.Wait()
			p.mu.Lock()
			replied, told := false, false
			for _, m := range p.order[from:] {
				replied = replied || strings.HasPrefix(m, "id ")
				if about := strings.HasSuffix(m, s.ID); about && !replied {
					t.Errorf("%s before the reply", m)
				} else {
					told = told || about
				}
			}
			p.mu.Unlock()
			if !told || s.ID == first.ID {
				t.Error("not notified at all")
			}
		}
	})
}

// MCPE-NOTE-1: the envelope of the protocol page, which is a log message of MCP at the same time.
func TestEnvelope(t *testing.T) {
	bubble(t, mcpe.Options{Envelope: true}, func(g *rig) {
		p := g.dial(legacy)
		s := p.subscribe(`{}`)
		g.emit("github.push", 1)
		all := p.notifications("notifications/message")
		if len(all) != 1 {
			t.Fatalf("%d notifications", len(all))
		}
		type inner struct {
			Method string
			Params struct{ SubscriptionID string }
		}
		var params struct {
			inner
			Level, Logger string
			Data          inner
		}
		if err := json.Unmarshal(all[0].Params, &params); err != nil {
			t.Fatal(err)
		}
		if params.Method != "events/event" || params.Params.SubscriptionID != s.ID || params.Data.Method != "events/event" || params.Data.Params != params.Params || params.Level != "info" || params.Logger != "mcpe" {
			t.Errorf("envelope %s", all[0].Params)
		}
	})
}

// MCPE-NOTE-4 on 2026-07-28: notifications come on the principal's listen request that opted in;
// without one realtime events are dropped and counted, and collected ones wait.
func TestStateless(t *testing.T) {
	bubbleWith(t, server.Options{Principal: as("ann")}, mcpe.Options{}, func(g *rig) {
		p := g.dial(modern)
		s := p.subscribe(`{"delivery":{"channels":["realtime","cron"],"cronSchedule":{"expression":"@hourly"}}}`)
		if s.ClientID != "ann" {
			t.Errorf("clientId %q", s.ClientID)
		}
		g.emit("github.push", 1)
		p.want("")
		if got := g.a.Stats().Dropped; got != 1 {
			t.Errorf("%d dropped", got)
		}
		sleep(time.Hour)
		p.want("")
		p.listen()
		p.want("batch(1)")
		g.emit("github.push", 2)
		p.want("event(2)")
		sleep(time.Hour)
		p.want("batch(2)")
	})
}

// MCPE-ID-1: where there is no session and no principal, nobody can subscribe.
func TestStatelessWithoutPrincipal(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(modern)
		for _, tool := range []string{"events_subscribe", "events_list", "events_unsubscribe"} {
			p.fails(tool, `{"subscriptionId":"x"}`, -32004, "Unauthorized")
		}
	})
}

// MCPE-NOTE-4, specification 8.1: events for a client that is not there are dropped and counted; a
// session that has ended takes its subscriptions with it.
func TestDisconnected(t *testing.T) {
	bubble(t, mcpe.Options{}, func(g *rig) {
		p := g.dial(legacy)
		p.subscribe(`{}`)
		p.HangUp()
		sleep(time.Second)
		g.emit("github.push", 1)
		sleep(time.Second)
		if subs := g.es.Subscriptions(); len(subs) != 0 {
			t.Errorf("still followed: %+v", subs)
		}
		q := g.dial(legacy)
		if l := q.list(`{}`); len(l) != 0 {
			t.Errorf("a new session sees %+v", l)
		}
	})
}
