package eventstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both runs a test in a bubble and outside.
func both(t *testing.T, f func(t *testing.T)) {
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, f) })
	t.Run("plain", f)
}

var opened = events.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))

func incident(id string) incidents.IncidentCreatedPayload {
	return incidents.IncidentCreatedPayload{IncidentID: id, Severity: incidents.SeverityP1, OpenedAt: opened}
}

// in is how long a test waits for what comes at once.
const in = 20 * time.Second

// TEST-1: server and client are a pair in memory, by every mode, in a bubble and outside, and end with the test.
func TestPair(t *testing.T) {
	for _, mode := range []string{"push", "poll"} {
		t.Run(mode, func(t *testing.T) {
			both(t, func(t *testing.T) {
				es := eventstest.NewServer(t, func(o *server.Options) { o.NextPoll = 50 * time.Millisecond })
				created, err := incidentsserver.RegisterIncidentCreated(es, incidentsserver.IncidentCreatedHooks{})
				if err != nil {
					t.Fatal(err)
				}
				c := eventstest.NewClient(t, es, func(o *eventstest.Options) { o.PollFloor = 10 * time.Millisecond })
				sub := eventstest.Subscribe(t, c, incidentsclient.SubscribeIncidentCreated,
					incidents.IncidentCreatedArguments{Severity: incidents.SeverityP1}, client.WithMode(mode))
				other := incident("INC-1")
				other.Severity = incidents.SeverityP2
				eventstest.Emit(t, created, other)
				eventstest.Emit(t, created, incident("INC-2"), events.WithID("e2"))
				if ev := sub.Next(in); ev.ID != "e2" || ev.Data.IncidentID != "INC-2" || ev.Arguments.Severity != incidents.SeverityP1 {
					t.Errorf("got %+v", ev)
				}
				sub.None(100 * time.Millisecond)
			})
		})
	}
}

// TEST-1: code that connects by itself does so over the same way, also after the server was away.
func TestTransport(t *testing.T) {
	both(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		eventstest.Register[incidents.IncidentCreatedPayload](t, es, incidents.IncidentCreatedEventName)
		c := eventstest.NewClient(t, es)
		c.Disconnect()
		if own, err := client.Connect(t.Context(), c.Transport(), client.Options{}); err == nil {
			own.Close()
			t.Fatal("connected to a server that is away")
		}
		c.Reconnect(es)
		own, err := client.Connect(t.Context(), c.Transport(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		if list, err := own.List(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// TEST-1, AUTH-3: hooks see the principal that the client was given.
func TestPrincipal(t *testing.T) {
	both(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]bool{}
		es := eventstest.NewServer(t, func(o *server.Options) {
			o.Authorize = func(_ context.Context, principal, _ string, _ json.RawMessage) error {
				mu.Lock()
				defer mu.Unlock()
				asked[principal] = true
				if principal == "eve" {
					return events.Forbidden("not you")
				}
				return nil
			}
		})
		created := eventstest.Register[incidents.IncidentCreatedPayload](t, es, incidents.IncidentCreatedEventName)
		as := func(principal string) *eventstest.Client {
			return eventstest.NewClient(t, es, func(o *eventstest.Options) { o.Principal = principal })
		}
		sub := eventstest.Subscribe(t, as("ada"), incidentsclient.SubscribeIncidentCreated, incidents.IncidentCreatedArguments{})
		if _, err := incidentsclient.SubscribeIncidentCreated(t.Context(), as("eve").Client, incidents.IncidentCreatedArguments{}, client.WithMode("poll")); !errors.Is(err, events.ErrForbidden) {
			t.Errorf("eve: %v", err)
		}
		nobody := eventstest.Subscribe(t, as(""), incidentsclient.SubscribeIncidentCreated, incidents.IncidentCreatedArguments{})
		eventstest.Emit(t, created, incident("INC-1"))
		sub.Next(in)
		nobody.Next(in)
		mu.Lock()
		defer mu.Unlock()
		if !asked["ada"] || !asked["eve"] || !asked[""] {
			t.Errorf("asked for %v", asked)
		}
	})
}

// A desk is a consumer as programs have them: it remembers what it was told.
type desk struct {
	mu   sync.Mutex
	told []string
}

func (d *desk) add(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, s)
}

func (d *desk) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}

// watch is what is tested: it runs until ctx ends or the server ends the subscription.
func (d *desk) watch(ctx context.Context, c *client.Client, mode string, cursors client.ConsumeOptions) error {
	cursors.OnProblem = func(err error) {
		var payload *client.PayloadError
		switch {
		case errors.As(err, new(*client.GapError)):
			d.add("gap")
		case errors.As(err, &payload):
			d.add("unreadable " + payload.Occurrence.ID)
		}
	}
	return client.Consume(ctx, c, cursors, incidentsclient.HandleIncidentCreated(incidents.IncidentCreatedArguments{},
		func(_ context.Context, ev *incidents.IncidentCreatedEvent) error {
			d.add(ev.Data.IncidentID)
			return nil
		}, client.WithMode(mode)))
}

// TEST-2: a consumer bears gaps, disconnects, duplicates, payloads that do not decode and restarts with other schemas,
// and learns that its subscription was terminated; the server is one of the test.
func TestTrouble(t *testing.T) {
	for _, mode := range []string{"push", "poll"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := memory.New()
				onKept := func(o *server.Options) { o.Store = kept }
				es := eventstest.NewServer(t, onKept)
				created := eventstest.Register[incidents.IncidentCreatedPayload](t, es, incidents.IncidentCreatedEventName)
				c := eventstest.NewClient(t, es)
				d, ended := &desk{}, make(chan error, 1)
				go func() {
					ended <- d.watch(t.Context(), c.Client, mode, client.ConsumeOptions{Store: clientmemory.NewCursors()})
				}()
				var want []string
				told := func(words ...string) {
					t.Helper()
					time.Sleep(time.Minute)
					if want = append(want, words...); !slices.Equal(d.all(), want) {
						t.Fatalf("told %v, want %v", d.all(), want)
					}
				}
				told()

				eventstest.Emit(t, created, incident("INC-1"), events.WithID("e1"))
				told("INC-1")
				again := events.Occurrence{ID: "e1", Name: incidents.IncidentCreatedEventName, Raw: json.RawMessage(`{"incidentId":"INC-1","severity":"P1","openedAt":"2026-11-20T08:00:00Z"}`)}
				c.Inject(again) // a duplicate, which the client takes care of
				told()
				if st := c.Subscriptions()[0]; st.Duplicates != 1 || st.Drift == nil {
					t.Errorf("status %+v", st)
				}
				again.ID = "" // the same news once more
				c.Inject(again)
				told("INC-1")

				c.Gap(incidents.IncidentCreatedEventName)
				told("gap")
				c.Inject(events.Occurrence{ID: "odd", Name: incidents.IncidentCreatedEventName, Raw: json.RawMessage(`{"incidentId":7}`)})
				told("unreadable odd")

				c.Disconnect()
				eventstest.Emit(t, created, incident("INC-2"))
				told()
				c.Reconnect(es)
				told("INC-2")

				next := eventstest.NewServer(t, onKept)
				changed, err := incidentsserver.RegisterIncidentCreated(next, incidentsserver.IncidentCreatedHooks{}) // with all schemas
				if err != nil {
					t.Fatal(err)
				}
				c.Reconnect(next)
				eventstest.Emit(t, changed, incident("INC-3"))
				told("INC-3")
				if st := c.Subscriptions()[0]; st.Drift != nil {
					t.Errorf("status %+v", st)
				}

				forgetful := eventstest.NewServer(t) // its log begins anew
				anew := eventstest.Register[incidents.IncidentCreatedPayload](t, forgetful, incidents.IncidentCreatedEventName)
				c.Reconnect(forgetful)
				told("gap")
				eventstest.Emit(t, anew, incident("INC-4"))
				told("INC-4")

				c.Terminate(incidents.IncidentCreatedEventName, events.Forbidden("your trial is over"))
				var reason *events.Error
				if err := <-ended; !errors.As(err, new(*client.TerminatedError)) || !errors.As(err, &reason) ||
					reason.Kind != events.KindForbidden || string(reason.Data) != `{"reason":"your trial is over"}` {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}
