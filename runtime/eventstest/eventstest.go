// Package eventstest provides utilities for testing programs that send or receive events. It provides an in-memory
// server and client, without sockets or processes, that end with the test.
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
// Everything works in a testing/synctest bubble, where waiting takes no time. Create the server, the client and the
// webhooks inside the bubble. Outside a bubble, a duration is the real time to wait for an expected event or for the
// absence of events. Functions with a parameter t fail the test if an error occurs. Call them from the test's
// goroutine.
//
// Start reading at [NewClient]. link.go connects the client and the server.
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

// shutdownTimeout is the timeout for shutting down a server at the end of the test.
const shutdownTimeout = 10 * time.Second

// NewServer returns a server without event types and shuts it down when the test ends. Its log is in memory. The change
// functions can modify the options before the server is created.
//
// Add event types with the Register functions of generated packages, with [server.Register], or with [Register].
func NewServer(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := server.Options{Logger: testLogger(t)}
	for _, f := range change {
		f(&o)
	}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "eventstest", Version: "v1"}, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := es.Shutdown(ctx); err != nil {
			t.Errorf("eventstest: shutting the server down: %v", err)
		}
	})
	return es
}

// Register adds an event type that has only a name and a payload type. It is for consumers whose generated packages do
// not contain server code. The type accepts any arguments but does not filter by them, and does not validate payloads.
// Clients report that the schemas differ from their generated types (drift).
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

// Emit emits p and fails the test if an error occurs. e is an emitter from the runtime or a generated package, or a
// wrapper of such an emitter.
func Emit[P any](t testing.TB, e interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}, p P, o ...events.EmitOption) {
	t.Helper()
	if err := e.Emit(t.Context(), p, o...); err != nil {
		t.Fatal(err)
	}
}

// testLogger returns a logger that writes to the test's output, which go test prints on failure.
func testLogger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
