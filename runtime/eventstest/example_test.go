package eventstest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
)

// Here t is a stand-in; in a test it is the test's.
func Example() {
	t := &standIn{ctx: context.Background()}
	defer t.end()

	// A server, which may be that of the program under test, and its client.
	es := eventstest.NewServer(t)
	created, err := incidentsserver.RegisterIncidentCreated(es, incidentsserver.IncidentCreatedHooks{})
	if err != nil {
		t.Fatal(err)
	}
	c := eventstest.NewClient(t, es)

	// What is emitted arrives where the arguments let it through.
	sub := eventstest.Subscribe(t, c, incidentsclient.SubscribeIncidentCreated, incidents.IncidentCreatedArguments{Severity: incidents.SeverityP1})
	at := events.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	eventstest.Emit(t, created, incidents.IncidentCreatedPayload{IncidentID: "INC-1", Severity: incidents.SeverityP4, OpenedAt: at})
	eventstest.Emit(t, created, incidents.IncidentCreatedPayload{IncidentID: "INC-2", Severity: incidents.SeverityP1, OpenedAt: at})
	fmt.Println(sub.Next(10 * time.Second).Data.IncidentID)
	sub.None(10 * time.Millisecond)

	// A server that has lost something says so.
	c.Gap(incidents.IncidentCreatedEventName)
	fmt.Println(sub.Err(10 * time.Second))
	// Output:
	// INC-2
	// client: incident.created: gap: events may be missing before this point
}

// A standIn is what an example, which is no test, has in place of a *testing.T.
type standIn struct {
	testing.TB
	ctx     context.Context
	cleanup []func()
}

func (s *standIn) Helper()                           {}
func (s *standIn) Context() context.Context          { return s.ctx }
func (s *standIn) Cleanup(f func())                  { s.cleanup = append(s.cleanup, f) }
func (s *standIn) Output() io.Writer                 { return os.Stderr }
func (s *standIn) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (s *standIn) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (s *standIn) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (s *standIn) end() {
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		s.cleanup[i]()
	}
}
