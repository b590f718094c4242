package eventstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// The tests of docs/testing.md, and the programs that they are about.

// An incidentServer is a server as mcpe-gen init writes them.
type incidentServer struct {
	events  *server.Server
	created *incidentsserver.IncidentCreatedEmitter
}

func newIncidentServer(o server.Options) (*incidentServer, error) {
	s := &incidentServer{}
	var err error
	if s.events, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "v1"}, nil), o); err != nil {
		return nil, err
	}
	s.created, err = incidentsserver.RegisterIncidentCreated(s.events, incidentsserver.IncidentCreatedHooks{Transform: hiding})
	return s, err
}

func (s *incidentServer) open(ctx context.Context, id string, severity incidents.Severity, reporter string) error {
	return s.created.Emit(ctx, incidents.IncidentCreatedPayload{IncidentID: id, Severity: severity,
		OpenedAt: events.NewTime(time.Now()), Reporter: &incidents.Person{ID: reporter}}, events.WithID(id))
}

// pageFor calls page for each incident, until ctx is done.
func pageFor(ctx context.Context, c *client.Client, cursors clientstore.ConsumerStore, page func(id string) error) error {
	return client.Consume(ctx, c, client.ConsumeOptions{Store: cursors},
		incidentsclient.HandleIncidentCreated(incidents.IncidentCreatedArguments{},
			func(_ context.Context, ev *incidents.IncidentCreatedEvent) error { return page(ev.Data.IncidentID) }))
}

func TestReporterIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newIncidentServer(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := eventstest.NewClient(t, s.events)
		created := eventstest.Subscribe(t, c, incidentsclient.SubscribeIncidentCreated, incidents.IncidentCreatedArguments{
			Severity: incidents.SeverityP1, RedactPII: new(true),
		})

		for id, severity := range map[string]incidents.Severity{"INC-1": incidents.SeverityP3, "INC-2": incidents.SeverityP1} {
			if err := s.open(t.Context(), id, severity, "ann"); err != nil {
				t.Fatal(err)
			}
		}
		ev := created.Next(time.Second)
		if ev.ID != "INC-2" || ev.Data.Reporter != nil {
			t.Errorf("got %s with the reporter %v, want INC-2 without", ev.ID, ev.Data.Reporter)
		}
		created.None(time.Minute)
	})
}

func TestWebhookIsRedacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := eventstest.NewWebhooks(t)
		var o server.Options
		hooks.ServerOptions(&o)
		s, err := newIncidentServer(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.events.Shutdown(context.Background()) })
		c := eventstest.NewClient(t, s.events, hooks.ClientOptions)
		created := eventstest.Subscribe(t, c, incidentsclient.SubscribeIncidentCreated, incidents.IncidentCreatedArguments{RedactPII: new(true)})

		if err := s.open(t.Context(), "INC-1", incidents.SeverityP1, "the-reporter"); err != nil {
			t.Fatal(err)
		}
		created.Next(time.Second)
		for _, d := range hooks.Deliveries() {
			if strings.Contains(string(d.Body), "the-reporter") {
				t.Errorf("posted %s", d.Body)
			}
		}
	})
}

func TestPagerLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		created := eventstest.Register[incidents.IncidentCreatedPayload](t, es, incidents.IncidentCreatedEventName)
		c := eventstest.NewClient(t, es)
		var paged []string
		cursors := clientmemory.NewCursors()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- pageFor(ctx, c.Client, cursors, func(id string) error {
				if id == "INC-3" {
					return errors.New("the pager is away")
				}
				paged = append(paged, id)
				return nil
			})
		}()
		time.Sleep(time.Second) // until it has subscribed

		eventstest.Emit(t, created, incident("INC-1"))
		c.Disconnect()
		eventstest.Emit(t, created, incident("INC-2"))
		c.Reconnect(es)
		time.Sleep(time.Second) // until it is back
		c.Inject(events.Occurrence{Name: incidents.IncidentCreatedEventName, Raw: json.RawMessage(`{"incidentId":7}`)})
		eventstest.Emit(t, created, incident("INC-3"))
		time.Sleep(time.Hour) // all tries are over

		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := []string{"INC-1", "INC-2"}; !slices.Equal(paged, want) {
			t.Errorf("paged %v, want %v", paged, want)
		}
		var dead []string
		for d, err := range clientstore.DeadLetters(t.Context(), cursors) {
			if err != nil {
				t.Fatal(err)
			}
			dead = append(dead, d.Error)
		}
		if len(dead) != 2 {
			t.Errorf("dead letters: %q", dead)
		}
	})
}

// The page shows what is run here.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for i, block := range strings.Split(string(page), "```go\n") {
		code, _, _ := strings.Cut(block, "```")
		if i == 0 || !strings.HasPrefix(code, "func Test") {
			continue
		}
		if shown++; !strings.Contains(string(here), code) {
			t.Errorf("docs/testing.md shows what is not run:\n%s", code)
		}
	}
	if shown != 3 {
		t.Errorf("%d tests are shown", shown)
	}
}
