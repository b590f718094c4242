package mcpeclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
)

// as makes ann, or nobody, of every caller.
func as(principal string) server.Options {
	return server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return principal }}
}

func (g *rig) emitAs(name string, n int) {
	g.t.Helper()
	e := g.more[name]
	if name == pushed.Name {
		e = g.push
	}
	if err := e.Emit(context.Background(), payload{n}); err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait() // the server reads each type by itself
}

func receive(t testing.TB, m *mcpeclient.Client, r mcpeclient.Request) *mcpeclient.Subscription {
	t.Helper()
	sub, err := m.Receive(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// told reads a subscription's items into a channel, each as one word: "github.push(1)" for an event at
// once, "batch(…)", "gap", "expired", or an error.
func told(sub *mcpeclient.Subscription) <-chan string {
	c := make(chan string, 10_000)
	go func() {
		defer close(c)
		for it, err := range sub.Items() {
			c <- word(it, err)
		}
	}()
	return c
}

func word(it mcpeclient.Item, err error) string {
	var words []string
	for _, e := range it.Events {
		var data payload
		_ = json.Unmarshal(e.Data, &data)
		words = append(words, fmt.Sprintf("%s(%d)", e.Type, data.N))
	}
	all := strings.Join(words, " ")
	switch {
	case err != nil:
		return "error: " + err.Error()
	case it.Gap:
		all += "gap"
	case it.Expired:
		all += "expired"
	case it.Batch:
		return "batch(" + all + ")"
	}
	return all
}

// expect waits for these words, in order; "end" is that of the iteration.
func expect(t testing.TB, c <-chan string, words ...string) {
	t.Helper()
	for _, want := range words {
		select {
		case got, ok := <-c:
			if !ok {
				got = "end"
			}
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(2 * time.Hour): // of the bubble's clock
			t.Fatalf("nothing comes, want %q", want)
		}
	}
}

func subscriptions(t testing.TB, m *mcpeclient.Client) []mcpewire.Subscription {
	t.Helper()
	all, err := m.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var hourly = &mcpewire.Delivery{Channels: []string{"cron"}, CronSchedule: &mcpewire.CronSchedule{
	Expression: "@hourly", Timezone: "UTC", AggregateEvents: true, MaxEventsPerDelivery: 100}}

// MCPE-RECV-1, MCPE-MATCH-1, MCPE-MATCH-2: one subscription brings every type that its filter matches, in
// order and as the server wrote them, at once and in batches, in both eras; when it is closed the server
// has it no more.
func TestReceive(t *testing.T) {
	for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
		t.Run(version, func(t *testing.T) {
			connected(t, as("ann"), version, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
				all := receive(t, m, mcpeclient.Request{})
				few := receive(t, m, mcpeclient.Request{Filter: mcpewire.Filter{
					EventTypes: []string{"github.*", "gitlab.push"}, Tags: []string{"ops", "bugs"}, Priority: []string{"low", "critical"}}})
				digest := receive(t, m, mcpeclient.Request{Filter: mcpewire.Filter{EventTypes: []string{"github.*"}}, Delivery: hourly})
				fromAll, fromFew, fromDigest := told(all), told(few), told(digest)
				g.emitAs("github.push", 1)
				g.emitAs("gitlab.push", 2)
				g.emitAs("github.issue.opened", 3)
				expect(t, fromAll, "github.push(1)", "gitlab.push(2)", "github.issue.opened(3)")
				expect(t, fromFew, "gitlab.push(2)", "github.issue.opened(3)")
				expect(t, fromDigest, "batch(github.push(1) github.issue.opened(3))")
				if s := few.Status(); s.Event != "github.*, gitlab.push" || s.Mode != "mcpe" || s.Received != 2 || s.Gaps != 0 {
					t.Errorf("status %+v", s)
				}
				if l := c.Subscriptions(); len(l) != 3 || l[0].Event != "*" {
					t.Errorf("the client lists %+v", l)
				}
				few.Close()
				expect(t, fromFew, "end")
				if !slices.ContainsFunc(subscriptions(t, m), func(s mcpewire.Subscription) bool { return s.ID == all.ID() }) || len(subscriptions(t, m)) != 2 {
					t.Errorf("after Close the server has %+v", subscriptions(t, m))
				}
				c.End(all.Status().ID)
				expect(t, fromAll, "error: client: closed", "end")
				if l := subscriptions(t, m); len(l) != 1 || l[0].ID != digest.ID() {
					t.Errorf("after End the server has %+v", l)
				}
			})
		})
	}
}

// MCPE-RECV-1: an event has all that the server wrote, and each channel brings it.
func TestReceiveRaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		c := g.connect(wire.RevisionLegacy)
		defer c.Close()
		both := *hourly
		both.Channels = []string{"realtime", "cron"}
		sub := receive(t, mcpeclient.New(c), mcpeclient.Request{Delivery: &both})
		if err := g.more["gitlab.push"].Emit(t.Context(), payload{7}, events.WithID("seven")); err != nil {
			t.Fatal(err)
		}
		var got []mcpeclient.Item
		for it, err := range sub.Items() {
			if got = append(got, it); err != nil || len(got) == 2 {
				break
			}
		}
		if len(got) != 2 || got[0].Batch || !got[1].Batch || len(got[1].Events) != 1 {
			t.Fatalf("got %+v", got)
		}
		e := got[0].Events[0]
		if e.ID == "" || string(e.Data) != `{"n":7}` || e.Metadata.SourceEventID != "seven" || e.Metadata.Priority != "low" ||
			!slices.Equal(e.Metadata.Tags, []string{"ops"}) || e.Metadata.Timestamp == "" || got[1].Events[0].Metadata.SourceEventID != "seven" {
			t.Errorf("got %+v", got)
		}
	})
}

// MCPE-RECV-1, specification 7.3: the expiry is the last item; so it is when the subscription expired
// while nobody was connected.
func TestReceiveExpiry(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %v", away), func(t *testing.T) {
			connected(t, as("ann"), wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
				got := told(receive(t, m, mcpeclient.Request{ExpiresAt: time.Now().Add(time.Minute)}))
				g.emit(1)
				expect(t, got, "github.push(1)")
				if !away {
					expect(t, got, "expired", "end")
					return
				}
				g.interrupt(true)
				time.Sleep(10 * time.Minute)
				g.interrupt(false)
				expect(t, got, "gap", "expired", "end")
				if l := subscriptions(t, m); len(l) != 1 || l[0].Status != "expired" {
					t.Errorf("the server has %+v", l)
				}
			})
		})
	}
}

// MCPE-RECV-2, specification 12.2 SHOULD 3: after a loss of the session the subscription is found again,
// or made anew, as Update and Pause have left it; a gap stands between, whatever the era.
func TestReceiveReconnect(t *testing.T) {
	for name, on := range map[string]struct{ version, principal string }{
		"session of a principal": {wire.RevisionLegacy, "ann"},
		"session of nobody":      {wire.RevisionLegacy, ""},
		"stateless":              {wire.RevisionStateless, "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			connected(t, as(on.principal), on.version, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
				sub := receive(t, m, mcpeclient.Request{Filter: mcpewire.Filter{EventTypes: []string{"github.push"}}})
				got := told(sub)
				g.emit(1)
				expect(t, got, "github.push(1)")
				at := time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()
				if _, err := m.Update(t.Context(), sub.ID(), mcpeclient.Change{Filter: &mcpewire.Filter{EventTypes: []string{"gitlab.*"}}, ExpiresAt: events.Some(at)}); err != nil {
					t.Fatal(err)
				}
				if err := m.Pause(t.Context(), sub.ID()); err != nil {
					t.Fatal(err)
				}
				before := sub.ID()
				g.drop()
				expect(t, got, "gap")
				synctest.Wait()
				if same := sub.ID() == before; same != (on.principal != "") {
					t.Errorf("found again: %v", same)
				}
				l := subscriptions(t, m)
				if len(l) != 1 || l[0].ID != sub.ID() || l[0].Status != "paused" || !slices.Equal(l[0].Filter.EventTypes, []string{"gitlab.*"}) {
					t.Fatalf("the server has %+v", l)
				}
				if when, err := time.Parse(time.RFC3339, l[0].ExpiresAt); err != nil || !when.Equal(at) {
					t.Errorf("it expires at %q, want %v", l[0].ExpiresAt, at)
				}
				if err := m.Resume(t.Context(), sub.ID()); err != nil {
					t.Fatal(err)
				}
				g.emit(2)
				g.emitAs("gitlab.push", 3)
				expect(t, got, "gitlab.push(3)")
				g.drop()
				expect(t, got, "gap")
				synctest.Wait()
				g.emitAs("gitlab.push", 4)
				expect(t, got, "gitlab.push(4)")
			})
		})
	}
}

// MCPE-RECV-1: the policy is asked about each event, also within a batch.
func TestReceivePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		c, err := client.Connect(t.Context(), client.Dial(g.dial), client.Options{ProtocolVersion: wire.RevisionLegacy,
			Policy: func(_ context.Context, o events.Occurrence) error {
				if o.Name == "github.push" {
					return errors.New("no")
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sub := receive(t, mcpeclient.New(c), mcpeclient.Request{Delivery: hourly})
		g.emitAs("github.push", 1)
		time.Sleep(61 * time.Minute) // a batch of which nothing is left
		g.emitAs("gitlab.push", 2)
		g.emitAs("github.push", 3)
		g.emitAs("gitlab.push", 4)
		expect(t, told(sub), "batch(gitlab.push(2) gitlab.push(4))")
		if s := sub.Status(); s.Received != 4 || s.Withheld != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

// What cannot be done is said at once.
func TestReceiveRefusals(t *testing.T) {
	connected(t, server.Options{}, wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
		var refusal *mcpeclient.Error
		if _, err := m.Receive(t.Context(), mcpeclient.Request{Filter: mcpewire.Filter{EventTypes: []string{"a*b"}}}); !errors.As(err, &refusal) || refusal.Code != mcpewire.CodeInvalidParams {
			t.Errorf("a bad wildcard: %v", err)
		}
		if len(c.Subscriptions()) != 0 {
			t.Errorf("left %+v", c.Subscriptions())
		}
		sub := receive(t, m, mcpeclient.Request{})
		go func() {
			for range sub.Items() {
			}
		}()
		synctest.Wait()
		for _, err := range sub.Items() {
			if err == nil || !strings.Contains(err.Error(), "is already being iterated") {
				t.Errorf("a second iteration: %v", err)
			}
		}
	})
	withoutMCPE(t, func(t *testing.T, c *client.Client) {
		if _, err := mcpeclient.New(c).Receive(t.Context(), mcpeclient.Request{}); !errors.Is(err, mcpeclient.ErrNoMCPE) {
			t.Errorf("a plain server: %v", err)
		}
	})
}

// MCPE-RECV-1: there are no cursors, so a store of cursors does not matter: equal subscriptions are two.
func TestReceiveTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		c, err := client.Connect(t.Context(), client.Dial(g.dial), client.Options{ProtocolVersion: wire.RevisionLegacy, Cursors: clientmemory.NewCursors()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m := mcpeclient.New(c)
		one, two := told(receive(t, m, mcpeclient.Request{})), told(receive(t, m, mcpeclient.Request{}))
		g.emit(1)
		expect(t, one, "github.push(1)")
		expect(t, two, "github.push(1)")
	})
}

// Unsubscribe and Shutdown end iterations, of both kinds; after Shutdown nothing can be received.
func TestUnsubscribeEndsIterations(t *testing.T) {
	connected(t, as("ann"), wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
		ended := func(about string) string {
			return "error: client: subscription to " + about + " terminated: mcpe client: unsubscribed"
		}
		sub := receive(t, m, mcpeclient.Request{})
		got := told(sub)
		g.emit(1)
		synctest.Wait() // it is handed over before the end
		if err := m.Unsubscribe(t.Context(), sub.ID()); err != nil {
			t.Fatal(err)
		}
		expect(t, got, "github.push(1)", ended("*"), "end")
		sub.Close()

		got = told(receive(t, m, mcpeclient.Request{Filter: mcpewire.Filter{EventTypes: []string{"github.*"}}}))
		typed, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, got, ended("github.*"), "end")
		if i := next(t, items(typed)); !errors.Is(i.err, mcpeclient.ErrUnsubscribed) {
			t.Errorf("got %+v", i)
		}
		if l := subscriptions(t, m); len(l) != 0 {
			t.Errorf("left %+v", l)
		}
		if _, err := m.Receive(t.Context(), mcpeclient.Request{}); !errors.Is(err, mcpeclient.ErrUnsubscribed) {
			t.Errorf("after Shutdown: %v", err)
		}
		if l := subscriptions(t, m); len(l) != 0 {
			t.Errorf("left %+v", l)
		}
	})
}

// One option may make several subscriptions.
func TestViaTwice(t *testing.T) {
	connected(t, as("ann"), wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
		via := m.Via(mcpeclient.Options{})
		other := pushed
		other.Name = "gitlab.push"
		one, err := client.Subscribe(t.Context(), c, pushed, arguments{}, via)
		if err != nil {
			t.Fatal(err)
		}
		two, err := client.Subscribe(t.Context(), c, other, arguments{}, via)
		if err != nil {
			t.Fatal(err)
		}
		first, second := items(one), items(two)
		g.emit(1)
		g.emitAs("gitlab.push", 2)
		if a, b := next(t, first), next(t, second); a != (item{n: 1}) || b != (item{n: 2}) {
			t.Errorf("got %+v, %+v", a, b)
		}
		one.Close()
		two.Close()
		if l := subscriptions(t, m); len(l) != 0 {
			t.Errorf("left %+v", l)
		}
	})
}

// MCPE-TOOL-3: a change leaves, sets and clears the expiry and the handler.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRigWith(t, as("ann"), mcpe.Options{Agent: &mcpe.AgentOptions{Handle: func(context.Context, mcpe.AgentRequest) error { return nil }}})
		defer g.stop()
		c := g.connect(wire.RevisionStateless)
		defer c.Close()
		m := mcpeclient.New(c)
		s, err := m.Subscribe(t.Context(), mcpeclient.Request{})
		if err != nil {
			t.Fatal(err)
		}
		handler := func(how string) events.Optional[mcpewire.Handler] {
			return events.Some(mcpewire.Handler{Type: "agent", Instructions: how})
		}
		at := time.Now().Add(time.Hour)
		for _, step := range []struct {
			name      string
			change    mcpeclient.Change
			how       string // of the handler, "" for none
			expiresAt time.Time
		}{
			{"set both", mcpeclient.Change{ExpiresAt: events.Some(at), Handler: handler("one")}, "one", at},
			{"leave both", mcpeclient.Change{Filter: &mcpewire.Filter{Tags: []string{"ops"}}}, "one", at},
			{"set the handler", mcpeclient.Change{Handler: handler("two")}, "two", at},
			{"clear the expiry", mcpeclient.Change{ExpiresAt: events.Null[time.Time]()}, "two", time.Time{}},
			{"set the expiry", mcpeclient.Change{ExpiresAt: events.Some(at.Add(time.Hour))}, "two", at.Add(time.Hour)},
			{"clear the handler", mcpeclient.Change{Handler: events.Null[mcpewire.Handler]()}, "", at.Add(time.Hour)},
		} {
			changed, err := m.Update(t.Context(), s.ID, step.change)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			how := ""
			if changed.Handler != nil {
				how = changed.Handler.Instructions
			}
			expires, _ := time.Parse(time.RFC3339, changed.ExpiresAt)
			if how != step.how || !expires.Truncate(time.Second).Equal(step.expiresAt.Truncate(time.Second)) || changed.ID != s.ID {
				t.Errorf("%s: %+v, handler %q", step.name, changed, how)
			}
		}
	})
}
