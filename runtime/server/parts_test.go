package server

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/durable"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

func (s *Server) live() *subscriber.Subscriptions { return s.parts.(*durable.Service).Webhooks }

func (s *Server) processes() cluster.Processes { return s.parts.(*durable.Service).Processes }

// webhook returns the options of the part Webhooks, so that a test can change them before it makes the server.
func (o *Options) webhook() *webhooks.Options {
	return o.Webhooks.Value().Options.(*webhooks.Options)
}

// replica is the same for the part Replicas, which it adds.
func (o *Options) replica() *replicas.Options {
	if o.Replicas == nil {
		o.Replicas = replicas.New(replicas.Options{})
	}
	return o.Replicas.Value().Options.(*replicas.Options)
}

// withParts returns o with parts for one server more: new ones like its own, and what its store needs. If it has any, it
// also has Operators.
func (o Options) withParts() Options {
	if o.Webhooks != nil {
		o.Webhooks = webhooks.New(*o.webhook())
	}
	if _, ok := o.Store.(engine.Shared); ok {
		o.Replicas = replicas.New(*o.replica())
	}
	if o.Webhooks != nil || o.Replicas != nil || o.Operators != nil {
		o.Operators = operators.New()
	}
	return o
}

// TestPartsRefused: what a server's configuration lacks or has too much of is an error before anything listens.
func TestPartsRefused(t *testing.T) {
	db := func() store.Store { return memcluster.New().Open() }
	taken := webhooks.New(webhooks.Options{})
	holder, err := New(mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil), Options{Webhooks: taken})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Shutdown(t.Context())
	twice := operators.New()
	for name, c := range map[string]struct {
		o    Options
		emit bool
		want string
	}{
		"a shared store without replicas": {Options{Store: db()}, false, "set Options.Replicas to replicas.New(replicas.Options{})"},
		"the same, emitting only":         {Options{Store: db()}, true, "set Options.Replicas to replicas.New(replicas.Options{})"},
		"replicas without a shared store": {Options{Replicas: replicas.New(replicas.Options{})}, false, "the store (*memory.Store) belongs to one process"},
		"a part for another option":       {Options{Webhooks: operators.New()}, false, "the part in Options.Webhooks is for Options.Operators"},
		"a part of another server":        {Options{Webhooks: taken}, false, "the part in Options.Webhooks belongs to another server"},
		"a part given twice":              {Options{Operators: twice, Webhooks: twice}, false, "the part in Options.Webhooks is for Options.Operators"},
		"webhooks that are not served":    {Options{Store: db(), Replicas: replicas.New(replicas.Options{}), Webhooks: webhooks.New(webhooks.Options{})}, true, "Options.Webhooks"},
		"an option that a part refuses":   {Options{Webhooks: webhooks.New(webhooks.Options{RequireDurableStore: true})}, false, "a durable store is required"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil)
			_, err := NewEmitOnly(c.o)
			if !c.emit {
				_, err = New(srv, c.o)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %q", err, c.want)
			}
			if _, err := New(srv, Options{}); err != nil && !c.emit {
				t.Errorf("the mcp.Server cannot be used afterwards: %v", err)
			}
		})
	}
	o := Options{Webhooks: webhooks.New(webhooks.Options{RequireDurableStore: true})}
	for range 2 { // a part that did not start is free
		if _, err := New(mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil), o); err == nil || !strings.Contains(err.Error(), "durable") {
			t.Errorf("again: %v", err)
		}
	}
}

// EVOL-2: a server without parts that restarts with a SQLite file knows which schemas changed incompatibly: a poller with
// an old cursor gets a gap after a required member was renamed, and goes on after one was added.
func TestEVOL2RestartWithoutParts(t *testing.T) {
	const before = `{"type":"object","properties":{"id":{"type":"string"},"severity":{"type":"string"}},"required":["id"]}`
	for name, c := range map[string]struct {
		payload string
		gap     bool
	}{
		"renamed":     {`{"type":"object","properties":{"number":{"type":"string"},"severity":{"type":"string"}},"required":["number"]}`, true},
		"one more":    {`{"type":"object","properties":{"id":{"type":"string"},"severity":{"type":"string"},"tags":{"type":"array"}},"required":["id"]}`, false},
		"unchanged":   {before, false},
		"other order": {`{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"severity":{"type":"string"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "events.db")
			start := func(payload string) (*Server, *Emitter[incident]) {
				db, err := sqlite.Open(t.Context(), file, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				s := newServer(t, Options{Store: db, SkipPayloadValidation: true})
				typ := incidentType("e")
				typ.PayloadSchema = json.RawMessage(payload)
				e, err := Register(s, typ, Hooks[filterArgs, incident]{})
				if err != nil {
					t.Fatal(err)
				}
				return s, e
			}
			s, e := start(before)
			from := poll(t, s, `{"name":"e"}`).Cursor
			emit(t, e, incident{ID: "1"})
			if err := s.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.options.Store.(*sqlite.Store).Close(); err != nil {
				t.Fatal(err)
			}
			again, _ := start(c.payload)
			r := pollFrom(t, again, from, "")
			if *r.Truncated != c.gap || len(r.Events) > 0 == c.gap {
				t.Errorf("truncated %t with %d events, want a gap %t", *r.Truncated, len(r.Events), c.gap)
			}
		})
	}
}
