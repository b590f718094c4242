package admin_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type none struct{}

type payload struct {
	ID string `json:"id"`
}

// A world is a server with an endpoint that takes or refuses, and its operator's handler.
type world struct {
	t        *testing.T
	es       *server.Server
	emit     *server.Emitter[payload]
	endpoint *httptest.Server
	refuse   atomic.Bool
	store    *watchedStore
	hold     atomic.Pointer[chan struct{}] // what the endpoint waits for
	handler  http.Handler

	mu    sync.Mutex
	ids   []string // webhook-ids that came
	last  string   // path and body of what came last
	asked []admin.Action
	deny  func(admin.Action) error
	audit []operator.AuditEntry
	log   bytes.Buffer
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// newWorld makes a world; change may alter the options for callbacks.
func newWorld(t *testing.T, change ...func(*callbacks.Options)) *world {
	t.Helper()
	w := &world{t: t, store: &watchedStore{Store: memory.New()}}
	w.endpoint = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.last = r.URL.Path + " " + string(body)
		w.ids = append(w.ids, r.Header.Get("webhook-id"))
		w.mu.Unlock()
		if hold := w.hold.Load(); hold != nil {
			<-*hold
		}
		if w.refuse.Load() {
			http.Error(rw, "the endpoint's own words", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(w.endpoint.Close)
	logger := slog.New(slog.NewJSONHandler(w, nil))
	reach := callbacks.Options{AllowOrigins: []string{w.endpoint.URL}}
	for _, f := range change {
		f(&reach)
	}
	var err error
	w.es, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{
		Operators: operators.New(),
		Logger:    slog.New(slog.DiscardHandler), Store: w.store,
		Webhooks: webhooks.New(webhooks.Options{Callbacks: reach, Attempts: webhooks.Attempts{PerSubscription: 100},
			Retry: webhooks.Retry{Schedule: []time.Duration{0, time.Hour}, Suspend: webhooks.Suspension{Rate: 0.5, Min: 1, Span: -1}}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	schema := json.RawMessage(`{"type":"object"}`)
	w.emit, err = server.Register(w.es, events.Type[none, payload]{Info: events.Info{Name: "ping", Description: "A <b>ping</b>.",
		InputSchema: schema, PayloadSchema: schema}}, server.Hooks[none, payload]{})
	if err != nil {
		t.Fatal(err)
	}
	w.handler, err = admin.NewHandler(w.es, admin.Options{Logger: logger, Hosts: []string{"admin.test"},
		Audit: func(r operator.AuditEntry) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.audit = append(w.audit, r)
		},
		Authenticate: func(r *http.Request) (string, error) {
			if r.Header.Get("Anonymous") != "" {
				return "", admin.ErrUnauthenticated
			}
			return cmp.Or(r.Header.Get("Actor"), "olga"), nil
		},
		Authorize: func(r *http.Request, _ string, a admin.Action) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, a)
			if w.deny != nil {
				return w.deny(a)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// subscribe makes a webhook subscription of a principal.
func (w *world) subscribe(principal, path string) string {
	w.t.Helper()
	id, err := w.es.Admin().Subscribe(w.t.Context(), operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{
		Principal: principal, Event: "ping", URL: w.endpoint.URL + path}})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) came() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.ids...)
}

// until waits for what happens beside the test.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s did not happen", what)
		}
	}
}

// An answered is a response.
type answered struct {
	status int
	header http.Header
	body   string
}

// ask makes a request of the handler; change may alter it first.
func (w *world) ask(method, path, body string, change ...func(*http.Request)) answered {
	w.t.Helper()
	r := httptest.NewRequest(method, "http://admin.test"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(r)
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return answered{rec.Code, rec.Header(), rec.Body.String()}
}

// perform makes a request that the server stores, and waits until all requests of the subscription are performed.
func (w *world) perform(id, verb, body, k string, change ...func(*http.Request)) answered {
	w.t.Helper()
	a := w.ask("POST", "/api/subscriptions/"+id+"/"+verb, body, append(change, key(k))...)
	if a.status != http.StatusAccepted || !strings.Contains(a.body, `"done":false`) {
		w.t.Errorf("%s: %d %s", verb, a.status, a.body)
	}
	w.untilPerformed(id)
	return a
}

// untilPerformed waits until all requests of the subscription are performed.
func (w *world) untilPerformed(id string) {
	w.t.Helper()
	w.until("the outcome of the requests", func() bool {
		i, err := w.es.Admin().Get(w.t.Context(), id)
		return err != nil || !slices.ContainsFunc(i.Requests, func(q operator.Request) bool { return q.Pending() })
	})
}

func key(k string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", k) }
}

func form(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// get decodes what a GET answers.
func get[T any](w *world, path string) (v T) {
	w.t.Helper()
	a := w.ask("GET", path, "")
	if a.status != 200 {
		w.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

type subscriptions struct {
	Subscriptions []operator.WebhookInfo
	Next          string
}

// isProblem holds an answer to a problem document of that status and code.
func (w *world) isProblem(what string, a answered, status int, code string) {
	w.t.Helper()
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		w.t.Errorf("%s: %d is no problem document: %s", what, a.status, a.body)
		return
	}
	if a.status != status || p.Status != status || p.Code != code || p.Title == "" || p.Detail == "" || p.Type == "" {
		w.t.Errorf("%s: %d %+v, want %d %s", what, a.status, p, status, code)
	}
}

// state is what nothing may change when a request is refused.
func (w *world) state() string {
	l := get[subscriptions](w, "/api/subscriptions")
	for i := range l.Subscriptions {
		l.Subscriptions[i].LastDeliveryAt = time.Time{}
	}
	b, err := json.Marshal(l)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%s %d", b, len(w.audit))
}
