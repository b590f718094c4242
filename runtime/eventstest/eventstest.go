// Package eventstest is for tests of programs that send or receive events: a server and a client in memory, without
// sockets and processes, which end with the test.
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
// [NewWebhooks] does the same for what the server posts to webhooks.
//
// A test of a consumer emits without a server program, and causes the trouble that a consumer has to bear:
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
// Everything works in a bubble of testing/synctest, where waiting costs no time: make server, client and webhooks inside
// of it. Outside, the durations that a test gives only bound how long it hangs, and how long it looks for what must not
// come. Functions that take a t fail the test where something goes wrong, and are called from its goroutine.
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

// ending bounds how long a server may take to shut down when its test is over.
const ending = 10 * time.Second

// NewServer returns a server without event types, which is shut down when the test ends. Its log is in memory; each
// change may edit the options before the server is made.
//
// Event types are added by the Register functions of generated packages, by [server.Register], or by [Register].
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

// Register adds an event type by its name and payload alone, for consumers whose generated packages have no server's
// side. Any arguments are accepted and filter nothing, and what is emitted is not checked. Clients report that the
// schemas differ from those of their generated types (drift).
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

// Emit emits p, and fails the test when it cannot be emitted. e is an emitter of the runtime, of a generated package, or
// a wrapper around one.
func Emit[P any](t testing.TB, e interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}, p P, o ...events.EmitOption) {
	t.Helper()
	if err := e.Emit(t.Context(), p, o...); err != nil {
		t.Fatal(err)
	}
}

// logger writes to the output of the test, which go test shows when it fails.
func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
