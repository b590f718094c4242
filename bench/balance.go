package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/bench/sample"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleclient"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// The setup behind the balancer. The number of kills is in settings.
const (
	balancedClients = 10 // per mode
	balancedLease   = time.Second
	balancedHooks   = 30
)

// benchBalance measures how long clients with default options wait for the next delivery after a server is killed. The
// servers are behind a round-robin balancer without health checks.
func benchBalance(b *bench) {
	took := map[string][]float64{}
	for range b.kills {
		b.check(killHalf(b, took))
	}
	killRow(b, "streams", took[wire.ModePush], time.Second)
	killRow(b, "polls", took[wire.ModePoll], 2*time.Second) // a poller polls once a second
	if address, ok := b.database("webhooks behind a balancer"); ok {
		killRow(b, fmt.Sprintf("webhooks (lease %v)", balancedLease), killHooks(b, address), balancedLease+2*time.Second)
	}
}

// killRow adds a row with the worst of the waiting times in seconds, and a note on the others.
func killRow(b *bench, what string, took []float64, most time.Duration) {
	b.within(fmt.Sprintf("from the kill behind a balancer to the next delivery, %s: the worst of %d", what, len(took)), []float64{slices.Max(took)}, most.Seconds(), duration)
	b.note(fmt.Sprintf("least %s, p50 %s, p99 %s", duration(slices.Min(took)), duration(median(took)), duration(quantile(took, 0.99))))
}

// A backend is one of two servers behind a balancer. Both have the same store.
type backend struct {
	*httptest.Server
	streams atomic.Int64
}

func (b *backend) kill() {
	b.Listener.Close()
	b.CloseClientConnections()
}

// killHalf kills the server with the most streams and records each client's waiting time.
func killHalf(ctx context.Context, took map[string][]float64) error {
	quiet := slog.New(slog.DiscardHandler)
	es, err := server.New(newServer(), server.Options{NextPoll: time.Second, Logger: quiet})
	if err != nil {
		return err
	}
	defer es.Shutdown(context.Background())
	emitter, err := sampleserver.RegisterBenchSample(es, sampleserver.BenchSampleHooks{})
	if err != nil {
		return err
	}
	handler := transport.NewHandler(es, transport.HandlerOptions{})
	both := []*backend{{}, {}}
	for _, b := range both {
		b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == wire.MethodStream {
				b.streams.Add(1)
				defer b.streams.Add(-1)
			}
			handler.ServeHTTP(w, r)
		}))
		defer b.Close()
	}
	front := httptest.NewServer(roundRobin(both))
	defer front.Close()
	defer front.CloseClientConnections()

	var killed atomic.Int64 // time of the kill in nanoseconds; 0 before it
	var mu sync.Mutex
	var failed error
	var clients sync.WaitGroup
	wait, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for _, mode := range []string{wire.ModePush, wire.ModePoll} {
		for range balancedClients {
			c, err := client.Connect(ctx, client.HTTP(front.URL, &http.Client{Transport: &http.Transport{}}), client.Options{Mode: mode, Logger: quiet})
			if err != nil {
				return err
			}
			defer c.Close()
			sub, err := sampleclient.SubscribeBenchSample(wait, c, sample.BenchSampleArguments{})
			if err != nil {
				return err
			}
			clients.Go(func() {
				err := errors.New("no delivery")
				for ev, e := range sub.Events() {
					if err = e; e != nil {
						break
					}
					if at := killed.Load(); at != 0 && ev.Data.T > at {
						mu.Lock()
						took[mode] = append(took[mode], time.Since(time.Unix(0, at)).Seconds())
						mu.Unlock()
						return
					}
				}
				mu.Lock()
				failed = errors.Join(failed, fmt.Errorf("%s: %w", mode, err))
				mu.Unlock()
			})
		}
	}
	emitting, enough := context.WithCancel(ctx)
	var emits sync.WaitGroup
	emits.Go(func() {
		for emitting.Err() == nil {
			if err := emitter.Emit(emitting, payload()); err != nil && emitting.Err() == nil {
				log.Print(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	time.Sleep(500 * time.Millisecond)
	victim := both[0]
	if both[1].streams.Load() > victim.streams.Load() {
		victim = both[1]
	}
	killed.Store(time.Now().UnixNano())
	victim.kill()
	clients.Wait()
	enough()
	emits.Wait()
	return failed
}

// roundRobin sends each request to the next server, even if it was killed.
func roundRobin(servers []*backend) http.Handler {
	var next atomic.Uint64
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: servers[next.Add(1)%uint64(len(servers))].Listener.Addr().String()})
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}

// killHooks kills one of two replicas on PostgreSQL and measures when each webhook receives an event that the other
// replica emits immediately afterwards.
func killHooks(b *bench, address string) (took []float64) {
	receiver := b.start("clock")
	var both [2]*process
	for i := range both {
		both[i] = b.start("replica", address, receiver.base, balancedLease)
	}
	b.subscribe(both[0], balancedHooks, eachShard, `{}`)
	for i := range max(4, b.kills/2) {
		// By then the replicas have divided the webhooks.
		time.Sleep(2 * balancedLease)
		survivor := both[(i+1)%2]
		b.emit(survivor, 1)
		b.ages(receiver, balancedHooks)
		both[i%2].stop()
		b.emit(survivor, 1)
		took = append(took, b.ages(receiver, balancedHooks)...)
		both[i%2] = b.start("replica", address, receiver.base, balancedLease)
	}
	return took
}
