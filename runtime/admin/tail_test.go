package admin_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
)

// A reading is a client of a live tail.
type reading struct {
	header   http.Header
	mu       sync.Mutex
	status   int
	got      bytes.Buffer
	deadline time.Time
	stuck    bool // reads no more
	cancel   context.CancelFunc
	over     chan struct{}
}

func (r *reading) Header() http.Header { return r.header }

func (r *reading) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *reading) Write(p []byte) (int, error) {
	r.mu.Lock()
	stuck, deadline := r.stuck, r.deadline
	r.mu.Unlock()
	if stuck {
		time.Sleep(time.Until(deadline))
		return 0, errors.New("i/o timeout")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.status = 200
	}
	return r.got.Write(p)
}

func (r *reading) FlushError() error { return nil }

func (r *reading) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = t
	return nil
}

// text is what came since the last call.
func (r *reading) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.got.Reset()
	return r.got.String()
}

// A tailed server is one without webhooks, so that it works in a bubble.
type tailed struct {
	t    *testing.T
	es   *server.Server
	h    http.Handler
	emit *server.Emitter[payload]
	mu   sync.Mutex
	deny error
	n    int // times that Authorize was asked
}

func newTailed(t *testing.T, payloads bool) *tailed {
	t.Helper()
	w := &tailed{t: t}
	var err error
	w.es, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Operators: operators.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.es.Shutdown(context.Background()) })
	w.emit = w.register("ping")
	w.h, err = admin.NewHandler(w.es, admin.Options{Logger: slog.New(slog.DiscardHandler), Hosts: []string{"admin.test"}, ShowPayloads: payloads,
		Authenticate: func(r *http.Request) (string, error) {
			if r.Header.Get("Anonymous") != "" {
				return "", admin.ErrUnauthenticated
			}
			return cmp.Or(r.Header.Get("Actor"), "olga"), nil
		},
		Authorize: func(*http.Request, string, admin.Action) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.n++
			return w.deny
		}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *tailed) register(name string) *server.Emitter[payload] {
	w.t.Helper()
	schema := json.RawMessage(`{"type":"object"}`)
	e, err := server.Register(w.es, events.Type[none, payload]{Info: events.Info{Name: name, Description: "A ping.", InputSchema: schema, PayloadSchema: schema}},
		server.Hooks[none, payload]{})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *tailed) open(query string, actor ...string) *reading {
	r := &reading{header: http.Header{}, over: make(chan struct{})}
	ctx, cancel := context.WithCancel(w.t.Context())
	r.cancel = cancel
	req := httptest.NewRequestWithContext(ctx, "GET", "/api/tail"+query, nil)
	req.Host = "admin.test"
	if len(actor) > 0 {
		req.Header.Set("Actor", actor[0])
	}
	go func() {
		defer close(r.over)
		w.h.ServeHTTP(r, req)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-r.over
	})
	synctest.Wait()
	return r
}

func (w *tailed) send(e *server.Emitter[payload], ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if err := e.Emit(w.t.Context(), payload{ID: "secret " + id}, events.WithID(id)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ids are those of the occurrences in a text of server-sent events.
func ids(text string) (all []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var o struct{ EventID string }
			_ = json.Unmarshal([]byte(data), &o)
			all = append(all, o.EventID)
		}
	}
	return all
}

// A live tail shows what passes from now on, of one type or of all, those that come later too, without
// payloads unless they are shown.
func TestTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, payloads := range []bool{false, true} {
			w := newTailed(t, payloads)
			w.send(w.emit, "before")
			all, one := w.open(""), w.open("?event=ping")
			if all.header.Get("Content-Type") != "text/event-stream" || all.text() != "retry: 2000\n\n" {
				t.Errorf("%v", all.header)
			}
			one.text()
			w.send(w.emit, "1", "2")
			time.Sleep(time.Second) // event types have no order among each other
			later := w.register("later")
			w.send(later, "3")
			time.Sleep(time.Second)
			got := all.text()
			if want := "[1 2 3]"; fmt.Sprint(ids(got)) != want {
				t.Errorf("all: %q", got)
			}
			if payloads != strings.Contains(got, `"data":{"id":"secret 1"}`) || payloads != strings.Contains(got, "secret") {
				t.Errorf("payloads %v: %s", payloads, got)
			}
			if got := one.text(); fmt.Sprint(ids(got)) != "[1 2]" || !strings.Contains(got, `"position":2`) || !strings.HasPrefix(got, "event: occurrence\ndata: {") {
				t.Errorf("one: %q", got)
			}
			time.Sleep(20 * time.Second)
			if got := all.text(); got != ": nothing new\n\n" {
				t.Errorf("a quiet time: %q", got)
			}
			if err := w.es.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-all.over
			if got := all.text(); !strings.HasPrefix(got, "event: end\ndata: {") || !strings.Contains(got, `"code":"shutting_down"`) {
				t.Errorf("the end: %q", got)
			}
		}
	})
}

// Authorize is asked again every minute, also while much passes, and its refusal ends the tail.
func TestTailAuthorizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTailed(t, false)
		quiet, busy := w.open(""), w.open("")
		for i := range 150 {
			w.send(w.emit, fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		n := w.n
		w.deny = errors.New("the reason")
		w.mu.Unlock()
		if n != 2+2*2 {
			t.Errorf("asked %d times in two and a half minutes", n)
		}
		busy.text()
		quiet.text()
		w.send(w.emit, "last")
		time.Sleep(time.Minute)
		for _, r := range []*reading{quiet, busy} {
			<-r.over
			if got := r.text(); !strings.Contains(got, `event: end`) || !strings.Contains(got, `"code":"forbidden"`) || strings.Contains(got, "the reason") {
				t.Errorf("%q", got)
			}
		}
		if r := w.open(""); r.status != 403 {
			t.Errorf("%d", r.status)
		}
	})
}

// A client that reads slowly is told what it missed and holds nothing up; one that does not read at all is
// gone after 10 s. So many of an actor are served at once and no more.
func TestTailIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTailed(t, false)
		fast, stuck := w.open(""), w.open("")
		fast.text()
		stuck.mu.Lock()
		stuck.stuck = true
		stuck.mu.Unlock()
		for i := range 5000 {
			w.send(w.emit, fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		got := fast.text()
		if all := ids(got); len(all) != 51 || all[50] != "4999" || !strings.Contains(got, "event: skipped\ndata: {\"count\":4950}\n") {
			t.Errorf("%d: %.200s", len(all), got)
		}
		time.Sleep(10 * time.Second)
		select {
		case <-stuck.over:
		default:
			t.Error("a client that reads nothing is still served")
		}
		var open []*reading
		for range 31 {
			open = append(open, w.open(""))
		}
		if r := w.open(""); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.text(), `"too_many"`) {
			t.Errorf("%d %v", r.status, r.header)
		}
		if r := w.open("", "ivan"); r.status != 200 {
			t.Errorf("%d for somebody else", r.status)
		}
		open[0].cancel()
		<-open[0].over
		if r := w.open(""); r.status != 200 {
			t.Errorf("%d after one was closed", r.status)
		}
	})
}

func TestTailBadInput(t *testing.T) {
	w := newWorld(t)
	w.isProblem("unknown", w.ask("GET", "/api/tail?event=nothing", ""), 404, "not_found")
	w.isProblem("the page of an unknown one", w.ask("GET", "/tail?event=nothing", ""), 404, "not_found")
	w.isProblem("an unknown type", w.ask("GET", "/types/nothing", ""), 404, "not_found")
	w.isProblem("an unknown type", w.ask("GET", "/api/types/nothing", ""), 404, "not_found")
	w.isProblem("pages", w.ask("GET", "/api/tail?after=x", ""), 400, "bad_request")
	w.isProblem("another filter", w.ask("GET", "/api/tail?principal=x", ""), 400, "bad_request")
	w.isProblem("a method", w.ask("POST", "/api/tail", ""), 405, "method_not_allowed")
}
