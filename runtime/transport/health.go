package transport

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// probeTime is the timeout for a probe.
const probeTime = 5 * time.Second

// HealthHandler returns a handler for liveness probes, such as GET /healthz in Kubernetes. It responds with 200 if
// [server.Server.Healthy] succeeds, otherwise with 503. The reason is logged but not sent, so the endpoint can be
// public. Concurrent requests share one check.
func HealthHandler(es *server.Server) http.Handler { return newProbe(es, "healthy", es.Healthy) }

// ReadyHandler is like [HealthHandler] for readiness probes, such as GET /readyz. It uses [server.Server.Ready].
func ReadyHandler(es *server.Server) http.Handler { return newProbe(es, "ready", es.Ready) }

// A probe is the handler for a liveness or readiness check.
type probe struct {
	what  string
	check func(context.Context) error
	log   *slog.Logger

	mu     sync.Mutex
	now    *runningCheck
	failed bool // the result of the last check
}

// A runningCheck is a check in progress.
type runningCheck struct {
	over chan struct{} // closed after err is set
	err  error
}

func newProbe(es *server.Server, what string, check func(context.Context) error) *probe {
	return &probe{what: what, check: check, log: port.Of(es).Logger()}
}

func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, probeTime)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	l := p.currentCheck()
	select {
	case <-l.over:
	case <-r.Context().Done():
		return
	}
	if l.err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "not "+p.what+"\n")
		return
	}
	_, _ = io.WriteString(w, p.what+"\n")
}

// currentCheck returns the check in progress, or starts a new check.
func (p *probe) currentCheck() *runningCheck {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		l := &runningCheck{over: make(chan struct{})}
		p.now = l
		go p.run(l)
	}
	return p.now
}

func (p *probe) run(l *runningCheck) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	l.err = p.check(ctx)
	p.mu.Lock()
	changed := p.failed != (l.err != nil)
	p.failed, p.now = l.err != nil, nil
	p.mu.Unlock()
	close(l.over)
	switch {
	case !changed:
	case l.err != nil:
		p.log.Warn("mcp events: the server is not "+p.what, "error", l.err)
	default:
		p.log.Info("mcp events: the server is " + p.what + " again")
	}
}
