package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/conformance"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/conformance/conformanceserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// Values that the tool controls also reports.
const (
	cappedName    = "conformance.capped"
	cappedStreams = 2
	allowListed   = "https://conformance.invalid/mcp-events"
)

// A fixture serves successive generations of the server with the same store.
type fixture struct {
	options options
	store   *sqlite.Store
	log     *slog.Logger
	seq     atomic.Int64
	current atomic.Pointer[generation]

	mu         sync.Mutex // one start, restart or stop at a time
	number     int
	origins    []string // allowed until the process ends
	terminated []string // event types ended until the process ends
	restarts   sync.WaitGroup
	stopped    bool
}

// A generation is a server with its handler and its emit loop.
type generation struct {
	number  int
	es      *server.Server
	handler http.Handler
	cancel  context.CancelFunc
	emitted chan struct{} // closed when the loop has ended
}

func newFixture(o options, s *sqlite.Store, log *slog.Logger) *fixture {
	return &fixture{options: o, store: s, log: log}
}

// ServeHTTP serves the current generation.
func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := f.current.Load()
	if g == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "restarting", http.StatusServiceUnavailable)
		return
	}
	g.handler.ServeHTTP(w, r)
}

// start builds the next generation.
func (f *fixture) start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.build(ctx)
}

// build creates a generation and starts serving it. f.mu must be held.
func (f *fixture) build(ctx context.Context) (err error) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "mcpe-conformance fixture", Version: "0.1.0"}, nil)
	es, err := server.New(srv, server.Options{
		Operators: operators.New(),
		Store:     f.store, PageSize: 3, NextPoll: 500 * time.Millisecond, Heartbeat: f.options.heartbeat, Logger: f.log,
		Retention: server.Retention{MaxAge: 10 * time.Minute, MaxCount: 100_000},
		Principal: func(_ context.Context, extra *mcp.RequestExtra) string {
			if extra.TokenInfo != nil {
				return extra.TokenInfo.UserID
			}
			return f.options.anonymousAs
		},
		Webhooks: webhooks.New(webhooks.Options{
			AllowReceivers: []string{allowListed}, DefaultTTL: time.Hour, MinTTL: time.Minute, AllowNoExpiry: true,
			Verify: webhooks.Verify{Timeout: 3 * time.Second, Budget: 20},
			Quota:  webhooks.Quota{PerPrincipal: -1, Total: -1},
			Retry: webhooks.Retry{
				Schedule: []time.Duration{0, 1200 * time.Millisecond, 1200 * time.Millisecond, 2500 * time.Millisecond, 2500 * time.Millisecond},
				Jitter:   -1, NoExpiryRemoval: f.options.gcWindow,
			},
		}),
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, shutdown(es))
		}
	}()
	tick, err := conformanceserver.RegisterConformanceTick(es, conformanceserver.ConformanceTickHooks{Match: everyNth})
	if err != nil {
		return err
	}
	if _, err := conformanceserver.RegisterConformanceSpare(es, conformanceserver.ConformanceSpareHooks{}); err != nil {
		return err
	}
	if _, err := conformanceserver.RegisterConformanceCapped(es, conformanceserver.ConformanceCappedHooks{}, server.WithMaxStreams(cappedStreams)); err != nil {
		return err
	}
	hook, err := conformanceserver.RegisterConformanceHook(es, conformanceserver.ConformanceHookHooks{})
	if err != nil {
		return err
	}
	for _, origin := range f.origins {
		if _, err := es.Admin().AllowOrigin(origin); err != nil {
			return err
		}
	}
	for _, name := range f.terminated {
		if _, err := es.Admin().Terminate(ctx, operator.Target{Event: name}, nil); err != nil {
			return err
		}
	}
	f.number++
	g := &generation{number: f.number, es: es, emitted: make(chan struct{})}
	if f.options.controls {
		f.addControls(srv, g)
	}
	g.handler = transport.NewHandler(es, transport.HandlerOptions{})
	emitting, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go func() {
		defer close(g.emitted)
		f.emit(emitting, tick, hook)
	}()
	f.current.Store(g)
	return nil
}

// everyNth reports whether an event matches the argument every.
func everyNth(_ context.Context, p *conformance.ConformanceTickPayload, a *conformance.ConformanceTickArguments) bool {
	return a.Every == nil || p.Seq%*a.Every == 0
}

// emit emits an event of each periodic type in every interval.
func (f *fixture) emit(ctx context.Context, tick *conformanceserver.ConformanceTickEmitter, hook *conformanceserver.ConformanceHookEmitter) {
	ticker := time.NewTicker(f.options.cadence)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n := f.seq.Add(1)
		at := time.Now()
		id := fmt.Sprintf("%d-%d", at.UnixNano(), n) // the counter alone would repeat in the next process
		err := errors.Join(
			tick.Emit(ctx, conformance.ConformanceTickPayload{Seq: n, Note: "tick"}, events.WithID("tick-"+id), events.WithTimestamp(at)),
			hook.Emit(ctx, conformance.ConformanceHookPayload{Seq: n, Note: "hook"}, events.WithID("hook-"+id), events.WithTimestamp(at)))
		if err != nil && ctx.Err() == nil && !errors.Is(err, events.ErrClosed) {
			f.log.Error("emit", "error", err)
		}
	}
}

// end ends the current generation. f.mu must be held.
func (f *fixture) end() error {
	g := f.current.Swap(nil)
	if g == nil {
		return nil
	}
	g.cancel()
	<-g.emitted
	return shutdown(g.es)
}

func shutdown(es *server.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return es.Shutdown(ctx)
}

// restart replaces the current generation after a short delay, so that the response can be sent.
func (f *fixture) restart() (next int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.restarts.Go(func() {
			time.Sleep(100 * time.Millisecond)
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.stopped {
				return
			}
			if err := errors.Join(f.end(), f.build(context.Background())); err != nil {
				f.log.Error("restart", "error", err)
			}
		})
	}
	return f.number + 1
}

// stop ends the fixture.
func (f *fixture) stop() error {
	f.mu.Lock()
	f.stopped = true
	err := f.end()
	f.mu.Unlock()
	f.restarts.Wait()
	return err
}
