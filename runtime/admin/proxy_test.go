package admin_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
)

// A forwardProxy answers CONNECT with a status, or with a tunnel if the status is 200.
type forwardProxy struct {
	status  int
	tunnels sync.WaitGroup
}

func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.status != http.StatusOK {
		w.WriteHeader(p.status)
		return
	}
	out, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	p.tunnels.Go(func() { _, _ = io.Copy(out, buffered); out.Close() })
	_, _ = io.Copy(in, out)
}

// SRV-8, ERR-1: an attempt that failed at the proxy is told from one that failed at the endpoint, in the API and on the
// page, without the proxy's credentials.
func TestSRV8Proxy(t *testing.T) {
	for name, c := range map[string]struct {
		status  int // of the proxy; 0: it is down
		attempt operator.Attempt
	}{
		"forbids it":              {403, operator.Attempt{Category: "proxy", Status: 403}},
		"wants other credentials": {407, operator.Attempt{Category: "proxy", Status: 407}},
		"is down":                 {0, operator.Attempt{Category: "proxy"}},
		"reaches no endpoint":     {502, operator.Attempt{Category: "connection_refused"}},
		"works":                   {200, operator.Attempt{Category: "http_5xx", Status: 503}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for the log of attempts
			p := &forwardProxy{status: c.status}
			t.Cleanup(p.tunnels.Wait)
			through := httptest.NewServer(p)
			t.Cleanup(through.Close)
			at, err := url.Parse(through.URL)
			if err != nil {
				t.Fatal(err)
			}
			at.User = url.UserPassword("egress", "hunter2")
			if c.status == 0 {
				through.Close()
			}
			w := newWorld(t, func(o *callbacks.Options) { o.Proxy = at })
			w.refuse.Store(true)
			id := w.subscribe("ann", "/a")
			if err := w.emit.Emit(t.Context(), payload{ID: "1"}); err != nil {
				t.Fatal(err)
			}
			path := "/api/subscriptions/" + id
			made := func() []operator.Attempt {
				return get[struct{ Attempts []operator.Attempt }](w, path+"/attempts").Attempts
			}
			w.until("the attempt", func() bool { return len(made()) > 0 })
			if a := made()[0]; a.Category != c.attempt.Category || a.Status != c.attempt.Status {
				t.Errorf("%+v", a)
			}
			timed := 0
			if c.status == 200 {
				timed = 1
			}
			if s, err := w.es.Admin().Latency(t.Context(), operator.Filter{}); err != nil || len(s.Endpoints) != 1 || s.Endpoints[0].Timed != timed {
				t.Errorf("latency of the endpoint: %+v, %v", s, err)
			}
			why, page := get[operator.Delay](w, path+"/why").Text, w.ask("GET", "/subscriptions/"+id, "")
			w.shows("the page", page, `<span class="chip bad">`+operator.FailureText(c.attempt.Category, c.attempt.Status)+"</span>")
			if strings.Contains(why, "the server's own proxy") != (c.attempt.Category == "proxy") {
				t.Error(why)
			}
			if i := get[operator.WebhookInfo](w, path); i.LastError != c.attempt.Category || strings.Contains(page.body+why+w.ask("GET", path+"/attempts", "").body, "hunter2") {
				t.Errorf("%+v\n%s", i, page.body)
			}
		})
	}
}
