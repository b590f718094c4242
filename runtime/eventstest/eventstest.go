// Package eventstest supports tests of programs that send or receive events. It provides a server and a client in
// memory, without sockets and processes, which end with the test.
//
// A test of a server connects to the server under test, subscribes and expects:
//
//	s, err := newNoteServer(server.Options{})
//	c := eventstest.NewClient(t, s.events)
//	added := eventstest.Subscribe(t, c, notes.SubscribeNoteAdded, notes.NoteAddedArguments{Author: new("ada")})
//	s.addNote(ctx, "1", "ada", "hello")
//	if ev := added.Next(time.Second); ev.Data.Text != "hello" { … }
//	added.None(time.Second)
//
// [NewWebhooks] does the same for webhook deliveries.
//
// A test of a consumer emits events without a server program and injects the faults that a consumer must handle:
//
//	es := eventstest.NewServer(t)
//	created := eventstest.Register[incidents.IncidentCreatedPayload](t, es, incidents.IncidentCreatedEventName)
//	c := eventstest.NewClient(t, es)
//	go watch(ctx, c.Client, pager)
//	eventstest.Emit(t, created, incidents.IncidentCreatedPayload{IncidentID: "INC-1"})
//	c.Disconnect()
//	…
//	c.Reconnect(es)
//
// Everything works in a bubble of testing/synctest, where waiting costs no time: create the server, the client and the
// webhooks inside the bubble. Outside a bubble, durations are timeouts: for an expected event, and for waiting that
// nothing arrives. Functions with a parameter t fail the test on errors; call them from the test's goroutine.
//
// Start reading at [NewClient]; link.go connects its client and the server.
package eventstest

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// ending bounds the shutdown of a server at the end of its test.
const ending = 10 * time.Second

// NewServer returns a server without event types and shuts it down when the test ends. Its log is in memory. Each
// change may edit the options before the server is created.
//
// Add event types with the Register functions of generated packages, with [server.Register], or with [Register].
func NewServer(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := server.Options{Logger: logger(t)}
	for _, f := range change {
		f(&o)
	}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "eventstest", Version: "v1"}, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ending)
		defer cancel()
		if err := es.Shutdown(ctx); err != nil {
			t.Errorf("eventstest: shutting the server down: %v", err)
		}
	})
	return es
}

// Register adds an event type with only a name and a payload type. It is for consumers whose generated packages lack
// the server side. The type accepts any arguments, does not filter by them, and does not validate payloads. Clients
// report that the schemas differ from their generated types (drift).
func Register[P any](t testing.TB, es *server.Server, name string) *server.Emitter[P] {
	t.Helper()
	open := json.RawMessage(`{"type":"object"}`)
	e, err := server.Register(es, events.Type[json.RawMessage, P]{Info: events.Info{Name: name, Description: "An event of a test.",
		InputSchema: open, PayloadSchema: open}}, server.Hooks[json.RawMessage, P]{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Emit emits p and fails the test on an error. e is an emitter of the runtime or a generated package, or a wrapper of
// one.
func Emit[P any](t testing.TB, e interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}, p P, o ...events.EmitOption) {
	t.Helper()
	if err := e.Emit(t.Context(), p, o...); err != nil {
		t.Fatal(err)
	}
}

// logger returns a logger that writes to the test's output, which go test shows on failure.
func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
