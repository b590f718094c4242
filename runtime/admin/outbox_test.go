package admin_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// aside is a store with an outbox of which some was rejected.
type aside struct {
	*memory.Store
	rows []operator.Rejected
	back []int64
}

func (*aside) Sequence(context.Context, engine.ShardFence, int, func(context.Context, store.Outgoing) (fault, err error)) (engine.Sequenced, error) {
	return engine.Sequenced{}, nil
}

func (a *aside) Rejected(_ context.Context, after int64, limit int) (some []operator.Rejected, err error) {
	for _, r := range a.rows {
		if r.ID > after && len(some) < limit {
			some = append(some, r)
		}
	}
	return some, nil
}

func (a *aside) PutBack(ctx context.Context, id int64) (bool, error) {
	a.back = append(a.back, id)
	return a.Drop(ctx, id)
}

func (a *aside) Drop(_ context.Context, id int64) (bool, error) {
	n := len(a.rows)
	a.rows = slices.DeleteFunc(a.rows, func(r operator.Rejected) bool { return r.ID == id })
	return len(a.rows) < n, nil
}

// K2: what transactions emitted and was rejected is shown, in pages, and put back or dropped, by the API and
// by the console's buttons.
func TestREP20Rejected(t *testing.T) {
	w := newWorld(t)
	st := &aside{Store: memory.New()}
	for id := range int64(5) {
		st.rows = append(st.rows, operator.Rejected{ID: id + 1, At: time.Now(), Reason: "it is <b>no</b> JSON", Log: "ping", EventID: "e"})
	}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Store: st, Operators: operators.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { es.Shutdown(context.Background()) })
	var asked []admin.Action
	denied := false
	w.handler, err = admin.NewHandler(es, admin.Options{Logger: slog.New(slog.DiscardHandler), Hosts: []string{"admin.test"},
		Authenticate: func(*http.Request) (string, error) { return "olga", nil },
		Authorize: func(_ *http.Request, _ string, a admin.Action) error {
			if asked = append(asked, a); denied && a.Verb == admin.ListOutbox {
				return errors.New("not for olga")
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	type page struct {
		Rejected []operator.Rejected
		Next     string
	}
	var ids []int64
	for path := "/api/outbox?limit=2"; ; {
		p := get[page](w, path)
		for _, r := range p.Rejected {
			ids = append(ids, r.ID)
		}
		if p.Next == "" {
			break
		}
		path = "/api/outbox?limit=2&after=" + p.Next
	}
	if !slices.Equal(ids, []int64{1, 2, 3, 4, 5}) {
		t.Fatalf("listed %v", ids)
	}
	if a := w.ask("GET", "/", ""); !strings.Contains(a.body, `href="/outbox">Some events from transactions</a> were rejected`) {
		t.Errorf("the overview says nothing: %s", a.body)
	}
	if a := w.ask("GET", "/outbox", ""); a.status != 200 || strings.Contains(a.body, "<b>no") || !strings.Contains(a.body, "outbox/5/drop") {
		t.Errorf("the page: %d %s", a.status, a.body)
	}
	if a := w.ask("POST", "/api/outbox/1/putback", "", key("a")); a.status != 200 {
		t.Errorf("put back: %d %s", a.status, a.body)
	}
	w.isProblem("once more", w.ask("POST", "/api/outbox/1/putback", "", key("a")), 404, "not_found")
	w.isProblem("no number", w.ask("POST", "/api/outbox/x/drop", "", key("c")), 404, "not_found")
	w.isProblem("a bad page", w.ask("GET", "/api/outbox?after=x", ""), 400, "bad_request")
	if a := w.ask("POST", "/outbox/2/drop", "key=d", form); a.status != http.StatusSeeOther || a.header.Get("Location") != "/outbox" {
		t.Errorf("drop by the button: %d %v", a.status, a.header)
	}
	if len(st.rows) != 3 {
		t.Errorf("%d are left", len(st.rows))
	}
	if !slices.Contains(asked, admin.Action{Verb: admin.Drop, Rejected: "2"}) {
		t.Errorf("authorized: %+v", asked)
	}
	denied = true
	w.isProblem("not authorized", w.ask("GET", "/api/outbox", ""), 403, "forbidden")
	if a := w.ask("GET", "/", ""); a.status != 200 || strings.Contains(a.body, "were rejected") {
		t.Errorf("the overview of who may not see it: %d", a.status)
	}
}
