package admin_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// REP-16, SRV-8: while builds with incompatible schemas of an event type serve it, the API and the pages say so.
func TestSRV8IncompatibleBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memcluster.New()
		serve := func(name, payload string) *server.Server {
			es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Store: shared.Open(), Operators: operators.New(),
				Replicas: replicas.New(replicas.Options{Name: name}), Webhooks: webhooks.New(webhooks.Options{}), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = es.Shutdown(context.Background()) })
			if _, err := server.Register(es, events.Type[struct{}, map[string]any]{Info: events.Info{Name: "copy.listed", InputSchema: json.RawMessage(`{"type":"object"}`),
				PayloadSchema: json.RawMessage(payload)}}, server.Hooks[struct{}, map[string]any]{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			return es
		}
		type body struct {
			Conflicts []operator.SchemaConflict
			Problems  []string
		}
		older := serve("a", `{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}`)
		handler, err := admin.NewHandler(older, admin.Options{Logger: slog.New(slog.DiscardHandler), Hosts: []string{"admin.test"},
			Authenticate: func(*http.Request) (string, error) { return "olga", nil }})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, handler: handler}
		if b := get[body](w, "/api/cluster"); len(b.Conflicts)+len(b.Problems) != 0 {
			t.Errorf("one build: %+v", b)
		}
		newer := serve("b", `{"type":"object","properties":{"heading":{"type":"string"}},"required":["heading"]}`)
		const change = "payloadSchema/properties/title: field removed or renamed"
		b := get[body](w, "/api/cluster")
		if want := "Processes serve incompatible schemas of copy.listed (" + change + "): a the older, b the newer. Restart the older processes with the newer build."; !slices.Equal(b.Problems, []string{want}) {
			t.Errorf("%q, want %q", b.Problems, want)
		}
		if len(b.Conflicts) != 1 || b.Conflicts[0].Event != "copy.listed" || b.Conflicts[0].Change != change {
			t.Errorf("%+v", b.Conflicts)
		}
		for _, page := range []string{"/", "/cluster"} {
			if a := w.ask("GET", page, ""); !strings.Contains(a.body, "incompatible schemas of copy.listed") {
				t.Errorf("%s says nothing: %s", page, a.body)
			}
		}
		if err := newer.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if b := get[body](w, "/api/cluster"); len(b.Conflicts)+len(b.Problems) != 0 {
			t.Errorf("the newer one has ended: %+v", b)
		}
	})
}

// K10: the processes that share a store, and what is wrong among them, are shown by the API, on a page and on the
// overview; where one has its store alone that is said.
func TestSRV8Cluster(t *testing.T) {
	w := newWorld(t)
	w.isProblem("alone", w.ask("GET", "/api/cluster", ""), 409, "unsupported")
	if a := w.ask("GET", "/", ""); a.status != 200 || strings.Contains(a.body, "Processes") {
		t.Errorf("the overview of one: %d %s", a.status, a.body)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		st := memcluster.New().Open()
		es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Store: st, Operators: operators.New(),
			Replicas: replicas.New(replicas.Options{Name: "<b>one"}), Webhooks: webhooks.New(webhooks.Options{}), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = es.Shutdown(context.Background()) })
		var denied admin.Verb
		w.handler, err = admin.NewHandler(es, admin.Options{Logger: slog.New(slog.DiscardHandler), Hosts: []string{"admin.test"},
			Authenticate: func(*http.Request) (string, error) { return "olga", nil },
			Authorize: func(_ *http.Request, _ string, a admin.Action) error {
				if a.Verb == denied {
					return admin.ErrUnauthenticated
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		type body struct {
			Replicas []struct {
				Name   string
				This   bool
				Shards map[string]int
			}
			Leased   bool
			HeardAt  time.Time
			Problems []string
		}
		time.Sleep(10 * time.Second)
		b := get[body](w, "/api/cluster")
		if len(b.Replicas) != 1 || b.Replicas[0].Name != "<b>one" || !b.Replicas[0].This || b.Replicas[0].Shards["/outbox"] != 1 || !b.Leased || len(b.Problems) != 0 ||
			time.Since(b.HeardAt) > 2*time.Second {
			t.Errorf("%+v", b)
		}
		for _, page := range []string{"/", "/cluster"} {
			if a := w.ask("GET", page, ""); a.status != 200 || !strings.Contains(a.body, "Oldest outbox event") || strings.Contains(a.body, "note bad") || strings.Contains(a.body, "<b>one") {
				t.Errorf("%s: %d %s", page, a.status, a.body)
			}
		}
		// What others ordered is not heard any more, and the lease cannot be renewed; the store answers questions
		// still.
		st.Inject(memcluster.Faults{Fail: func(step string) error {
			if strings.HasPrefix(step, "Cluster") {
				return nil
			}
			return context.DeadlineExceeded
		}})
		time.Sleep(time.Minute)
		if b = get[body](w, "/api/cluster"); b.Leased || len(b.Replicas) != 0 || len(b.Problems) < 3 {
			t.Errorf("cut off: %+v", b)
		}
		for _, page := range []string{"/", "/cluster"} {
			if a := w.ask("GET", page, ""); !strings.Contains(a.body, "has no lease") || !strings.Contains(a.body, "cannot read the changes of other processes") || !strings.Contains(a.body, "Unowned shards of /outbox") {
				t.Errorf("%s says nothing: %s", page, a.body)
			}
		}
		denied = admin.ShowCluster
		w.isProblem("not allowed", w.ask("GET", "/api/cluster", ""), 403, "forbidden")
		if a := w.ask("GET", "/", ""); a.status != 200 || strings.Contains(a.body, "has no lease") {
			t.Errorf("the overview of who may not see it: %d", a.status)
		}
	})
}
