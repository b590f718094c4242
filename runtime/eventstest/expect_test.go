package eventstest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A failing is the t of a test that is meant to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
func (f *failing) Fatal(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }
func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

// fails runs do, which has to fail in the words want.
func fails(t *testing.T, f *failing, want string, do func()) {
	t.Helper()
	f.said = ""
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
	if want == "" && f.said != "" || !strings.Contains(f.said, want) {
		t.Errorf("said %q, want %q", f.said, want)
	}
}

// hiding leaves the reporter out for those who ask for it.
func hiding(_ context.Context, p *incidents.IncidentCreatedPayload, a *incidents.IncidentCreatedArguments) error {
	if a.RedactPIIOrDefault() {
		p.Reporter = nil
	}
	return nil
}

// TEST-3: what arrives is expected in order and within a time, what does not is noticed, and a test fails in words that
// say what came instead.
func TestExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		created, err := incidentsserver.RegisterIncidentCreated(es, incidentsserver.IncidentCreatedHooks{Transform: hiding})
		if err != nil {
			t.Fatal(err)
		}
		f := &failing{TB: t}
		c := eventstest.NewClient(f, es)
		sub := eventstest.Subscribe(f, c, incidentsclient.SubscribeIncidentCreated, incidents.IncidentCreatedArguments{RedactPII: new(true)})
		emit := func(id string) {
			p := incident(id)
			p.Reporter = &incidents.Person{ID: "u1"}
			eventstest.Emit(t, created, p, events.WithID(id))
		}
		for _, id := range []string{"1", "2", "3"} {
			emit(id)
		}
		for _, id := range []string{"1", "2"} {
			fails(t, f, "", func() {
				if ev := sub.Next(time.Second); ev.ID != id || ev.Data.Reporter != nil {
					t.Errorf("got %+v, want %s without a reporter", ev, id)
				}
			})
		}
		fails(t, f, `incident.created: got the event 3 {"incidentId":"3"`, func() { sub.None(time.Second) })
		fails(t, f, "", func() { sub.None(time.Second) })
		begun := time.Now()
		fails(t, f, "incident.created: no event within 1s", func() { sub.Next(time.Second) })
		fails(t, f, "incident.created: no error within 2s", func() { sub.Err(2 * time.Second) })
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		emit("4")
		fails(t, f, `want an error`, func() { sub.Err(time.Second) })
		c.Gap("incident.created")
		fails(t, f, "incident.created: got the error client: incident.created: gap", func() { sub.Next(time.Second) })
		c.Gap("incident.created")
		fails(t, f, "want nothing", func() { sub.None(time.Second) })
		c.Gap("incident.created")
		fails(t, f, "", func() {
			if err := sub.Err(time.Second); !errors.As(err, new(*client.GapError)) {
				t.Errorf("got %v", err)
			}
		})
		c.Terminate("incident.created", events.Forbidden(""))
		fails(t, f, "nobody is subscribed to incident.created", func() { c.Gap("incident.created") })
		fails(t, f, "", func() {
			if err := sub.Err(time.Second); !client.Final(err) {
				t.Errorf("got %v", err)
			}
		})
		fails(t, f, "no event within 1s: the subscription has ended", func() { sub.Next(time.Second) })
		fails(t, f, "subscribing: ", func() {
			eventstest.Subscribe(f, c, incidentsclient.SubscribeIncidentUpdated, incidents.IncidentUpdatedArguments{})
		})
		fails(t, f, "emitting incident.created: ", func() { eventstest.Emit(f, created, incidents.IncidentCreatedPayload{}) })
	})
}

// TEST-3: what a webhook subscriber would have received is seen with its signatures verified and without a network, in
// a bubble and outside.
func TestWebhooks(t *testing.T) {
	both(t, func(t *testing.T) {
		hooks := eventstest.NewWebhooks(t)
		es := eventstest.NewServer(t, hooks.ServerOptions)
		created, err := incidentsserver.RegisterIncidentCreated(es, incidentsserver.IncidentCreatedHooks{Transform: hiding})
		if err != nil {
			t.Fatal(err)
		}
		c := eventstest.NewClient(t, es, hooks.ClientOptions)
		sub := eventstest.Subscribe(t, c, incidentsclient.SubscribeIncidentCreated,
			incidents.IncidentCreatedArguments{Severity: incidents.SeverityP1, RedactPII: new(true)})
		p := incident("INC-1")
		p.Reporter = &incidents.Person{ID: "u1"}
		eventstest.Emit(t, created, p, events.WithID("e1"))
		if ev := sub.Next(in); ev.ID != "e1" || ev.Data.Reporter != nil {
			t.Errorf("got %+v", ev)
		}
		all := hooks.Deliveries()
		if len(all) != 1 || all[0].Occurrence.EventID != "e1" || all[0].ID != "e1" || all[0].Subscription == "" || strings.Contains(string(all[0].Body), "reporter") {
			t.Errorf("delivered %+v", all)
		}
		if err := es.Revoke(t.Context(), "subscriber"); err != nil {
			t.Fatal(err)
		}
		if err := sub.Err(in); !errors.Is(err, events.ErrForbidden) {
			t.Errorf("got %v", err)
		}
		if all = hooks.Deliveries(); len(all) != 2 || all[1].Type != webhook.TypeTerminated {
			t.Errorf("delivered %+v", all)
		}
	})
}

// TEST-3: what no callback accepts fails the test, and names that are none of the test's lead nowhere.
func TestWrongWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		hooks := eventstest.NewWebhooks(f)
		var o server.Options
		hooks.ServerOptions(&o)
		network := o.Webhooks.Value().Options.(*webhooks.Options).Callbacks
		if found, err := network.Resolver.LookupNetIP(t.Context(), "ip", "elsewhere.example"); err == nil {
			t.Errorf("found %v", found)
		}
		var co eventstest.Options
		hooks.ClientOptions(&co)
		endpoint, err := co.Webhook.Receiver.Open(webhook.EndpointOptions{})
		if err != nil {
			t.Fatal(err)
		}
		endpoint.Activate("sub_1", func(context.Context, webhook.Delivery) error { return nil })
		post := func(s webhook.Secret) int {
			r, err := webhook.Signer{Ring: webhook.NewRing(s)}.NewRequest(t.Context(), co.Webhook.PublicURL+endpoint.Path(),
				webhook.Message{ID: "e1", Subscription: "sub_1", Body: []byte(`{"eventId":"e1","name":"x","timestamp":"2026-11-20T08:00:00Z","data":{}}`)})
			if err != nil {
				t.Fatal(err)
			}
			tr := &http.Transport{DialContext: network.DialContext, TLSClientConfig: network.TLS}
			defer tr.CloseIdleConnections()
			res, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			return res.StatusCode
		}
		if code := post(endpoint.Secret()); code/100 != 2 || f.said != "" || len(hooks.Deliveries()) != 1 {
			t.Errorf("answered %d, said %q, delivered %d", code, f.said, len(hooks.Deliveries()))
		}
		if code := post(webhook.NewSecret()); code != 401 || !strings.Contains(f.said, "a callback answers 401") || len(hooks.Deliveries()) != 1 {
			t.Errorf("answered %d, said %q, delivered %d", code, f.said, len(hooks.Deliveries()))
		}
	})
}
