package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/reaper"
	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// required is set where tests must not be skipped, as in CI.
const required = "MCPE_TEST_CHROMIUM_REQUIRED"

var update = flag.Bool("update", false, "write the screenshots of docs/images anew")

// browser is a Chromium that the tests share; nil without one.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	program := ""
	for _, name := range []string{os.Getenv("MCPE_TEST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil && name != "" {
			program = p
			break
		}
	}
	if program == "" {
		fmt.Fprintln(os.Stderr, "NO CHROMIUM: the console was not tried in a browser; install chromium, or set MCPE_TEST_CHROMIUM")
		if os.Getenv(required) != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	profile, err := os.MkdirTemp("", "mcpe-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	watch, err := reaper.Watch(profile) // Chromium and its profile end with us, however we end
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(profile), chromedp.Env("TMPDIR="+profile),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1100, 800), chromedp.WSURLReadTimeout(time.Minute))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), o...)
	ctx, quit := chromedp.NewContext(ctx)
	if err := chromedp.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "starting Chromium:", err)
		os.Exit(1)
	}
	browser = ctx
	code := m.Run()
	quit()
	stop()
	if err := watch.Release(); err != nil {
		fmt.Fprintln(os.Stderr, "ending Chromium:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

type none struct{}

type order struct {
	ID string `json:"id"`
}

// token is the operator's.
const token = "t0ken"

// A site is a server with its console on loopback.
type site struct {
	t        *testing.T
	es       *server.Server
	orders   *server.Emitter[order]
	endpoint *httptest.Server
	refuse   atomic.Bool
	took     atomic.Int32 // deliveries that the endpoint took

	handler http.Handler
	address string
	web     *http.Server
}

func newSite(t *testing.T, description string) *site {
	t.Helper()
	s := &site{t: t}
	s.endpoint = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if s.refuse.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.took.Add(1)
	}))
	t.Cleanup(s.endpoint.Close)
	var err error
	s.es, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{
		Operators: operators.New(),
		Logger:    slog.New(slog.DiscardHandler),
		Webhooks: webhooks.New(webhooks.Options{Callbacks: callbacks.Options{AllowOrigins: []string{s.endpoint.URL}}, Attempts: webhooks.Attempts{PerSubscription: 100}, Quota: webhooks.Quota{PerPrincipal: -1},
			Retry: webhooks.Retry{Schedule: []time.Duration{0, time.Hour}, Suspend: webhooks.Suspension{Rate: 0.5, Min: 1, Span: -1}}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.es.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	s.orders, err = server.Register(s.es, events.Type[none, order]{Info: events.Info{Name: "order.created", Description: description,
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`)}},
		server.Hooks[none, order]{})
	if err != nil {
		t.Fatal(err)
	}
	s.handler, err = admin.NewHandler(s.es, admin.Options{Logger: slog.New(slog.DiscardHandler), Hosts: []string{"127.0.0.1"}, ShowPayloads: true,
		Authenticate: admin.Tokens(map[string]string{"olga": token})})
	if err != nil {
		t.Fatal(err)
	}
	s.address = "127.0.0.1:0"
	s.live()
	t.Cleanup(s.die)
	return s
}

// live begins to serve, again on the same port after die.
func (s *site) live() {
	s.t.Helper()
	ln, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = ln.Addr().String()
	s.web = &http.Server{Handler: http.StripPrefix("/ops", s.handler)}
	go func(w *http.Server) { _ = w.Serve(ln) }(s.web)
}

// die is what a killed process does to its connections.
func (s *site) die() { _ = s.web.Close() }

func (s *site) url(path string) string {
	return (&url.URL{Scheme: "http", User: url.UserPassword("me", token), Host: s.address, Path: "/ops"}).String() + path
}

func (s *site) subscribe(principal, path string) string {
	s.t.Helper()
	id, err := s.es.Admin().Subscribe(s.t.Context(), operator.SubscribeRequest{
		SubscriptionKey: operator.SubscriptionKey{Principal: principal, URL: s.endpoint.URL + path, Event: "order.created"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *site) emit(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if err := s.orders.Emit(s.t.Context(), order{ID: id}, events.WithID(id)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) state(id string) operator.State {
	s.t.Helper()
	state, err := s.es.Admin().State(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// until waits; only a hang fails.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A tab is a page of the browser. Whatever the page reports as an error, and any request to another host,
// fails the test.
type tab struct {
	t    *testing.T
	s    *site  // nil for a tab of no console
	path string // that was visited last
	ctx  context.Context

	mu   sync.Mutex
	bad  []string
	deaf bool // errors are expected
}

func (s *site) open(path string) *tab {
	s.t.Helper()
	p := newTab(s.t, s.address)
	p.s = s
	p.visit(path)
	return p
}

// newTab opens an empty tab for pages of a host.
func newTab(t *testing.T, host string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	p := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(e any) {
		switch e := e.(type) {
		case *log.EventEntryAdded:
			p.note(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		case *runtime.EventExceptionThrown:
			p.note("exception: " + e.ExceptionDetails.Error())
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Host != host && u.Scheme != "data" && u.Scheme != "chrome-error" {
				p.note("a request to " + e.Request.URL)
			}
		}
	})
	p.do(log.Enable(), network.Enable())
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, b := range p.bad {
			t.Errorf("%s: %s", p.path, b)
		}
	})
	return p
}

func (p *tab) note(text string) {
	if strings.Contains(text, "favicon.ico") {
		return // which the browser asks for by itself
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deaf {
		p.bad = append(p.bad, text)
	}
}

// expectErrors is called before the page has a reason to report some.
func (p *tab) expectErrors(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = yes
}

func (p *tab) do(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) visit(path string) {
	p.t.Helper()
	p.path = path
	p.do(chromedp.Navigate(p.s.url(path)), chromedp.WaitReady("body"))
}

// press presses what the selector finds and waits for the page that follows.
func (p *tab) press(selector string) {
	p.t.Helper()
	resp, err := chromedp.RunResponse(p.ctx, chromedp.Click(selector, chromedp.ByQuery))
	if err != nil || resp == nil || resp.Status != 200 {
		p.t.Fatalf("pressing %s: %+v, %v", selector, resp, err)
	}
	p.do(chromedp.WaitReady("main"))
}

// eval is the value of an expression.
func eval[T any](p *tab, expression string) (v T) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, chromedp.Evaluate(expression, &v)); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector))
}

// readAxe returns the source of axe.
func readAxe(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "bin", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("make browser fetches axe: %v", err)
	}
	return string(b)
}

// accessible has axe look at the page, light and dark.
func (p *tab) accessible(path, axe string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		eval[any](p, axe+";0")
		var found []struct {
			ID, Help string
			Nodes    []struct{ HTML, FailureSummary string }
		}
		p.do(chromedp.Evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)", &found,
			func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
		for _, v := range found {
			for _, n := range v.Nodes {
				p.t.Errorf("%s, %s: %s: %s: %.300s\n%s", path, scheme, v.ID, v.Help, n.HTML, n.FailureSummary)
			}
		}
		// What is spoken to press a button is on it (WCAG 2.5.3).
		for _, name := range eval[[]string](p, `[...document.querySelectorAll("[aria-label]:is(button, a)")]
			.filter(e => !e.ariaLabel.toLowerCase().includes(e.textContent.trim().toLowerCase())).map(e => e.ariaLabel)`) {
			p.t.Errorf("%s: the name %q has not the text", path, name)
		}
	}
}
