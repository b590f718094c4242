package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func ask(h http.Handler, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
	return w
}

// The probes of a server: ready until it is shut down, healthy all the time.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		health, ready := HealthHandler(g.es), ReadyHandler(g.es)
		for _, h := range []http.Handler{health, ready} {
			if a := ask(h, "GET"); a.Code != 200 || a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%d %v", a.Code, a.Header())
			}
			if a := ask(h, "HEAD"); a.Code != 200 {
				t.Errorf("HEAD: %d", a.Code)
			}
			if a := ask(h, "POST"); a.Code != 405 || a.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("POST: %d %v", a.Code, a.Header())
			}
		}
		if err := g.es.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := ask(ready, "GET"); a.Code != 503 || a.Body.String() != "not ready\n" {
			t.Errorf("%d %q", a.Code, a.Body)
		}
		if a := ask(health, "GET"); a.Code != 200 || a.Body.String() != "healthy\n" {
			t.Errorf("%d %q", a.Code, a.Body)
		}
	})
}

// Probes that come together are one look, the reason is in the log and nowhere else, and the log has a
// line for each change only.
func TestProbesShareALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var asked atomic.Int32
		answer := make(chan error)
		p := &probe{what: "ready", log: slog.New(slog.NewTextHandler(&log, nil)), check: func(context.Context) error {
			asked.Add(1)
			return <-answer
		}}
		for _, err := range []error{nil, errors.New("secret"), errors.New("secret again"), nil, nil} {
			want := 200
			if err != nil {
				want = 503
			}
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					if a := ask(p, "GET"); a.Code != want || strings.Contains(a.Body.String(), "secret") {
						t.Errorf("%v: %d %q", err, a.Code, a.Body)
					}
				})
			}
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			}()
			synctest.Wait()
			cancel()
			<-gone // who goes away does not wait
			answer <- err
			wg.Wait()
		}
		if n := asked.Load(); n != 5 {
			t.Errorf("%d looks", n)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "error=secret\n") {
			t.Errorf("%d lines: %s", n, &log)
		}
	})
}
