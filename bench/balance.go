package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/bench/sample"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleclient"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleserver"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
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
func benchBalance(ctx context.Context, s settings) ([]row, error) {
	took := map[string][]time.Duration{}
	for range s.kills {
		if err := killHalf(ctx, took); err != nil {
			return nil, err
		}
	}
	rows := []row{
		killRow("streams", took[wire.ModePush], time.Second),
		// A poller polls once a second.
		killRow("polls", took[wire.ModePoll], 2*time.Second),
	}
	hooks, err := killHooks(ctx, s)
	if errors.Is(err, throwaway.ErrMissing) {
		fmt.Fprintln(os.Stderr, "bench: NOT MEASURED: webhooks behind a balancer, since PostgreSQL is not installed")
		return rows, nil
	}
	if err != nil {
		return rows, err
	}
	return append(rows, killRow(fmt.Sprintf("webhooks (lease %v)", balancedLease), hooks, balancedLease+2*time.Second)), nil
}

// killRow returns a row with a distribution and the maximum time allowed.
func killRow(what string, took []time.Duration, limit time.Duration) row {
	slices.Sort(took)
	n := len(took)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	worst := took[n-1]
	p99 := took[int(math.Ceil(float64(n)*0.99))-1]
	ours := fmt.Sprintf("%v, %v, %v, %v", round(took[0]), round(took[n/2]), round(p99), round(worst))
	return row{fmt.Sprintf("from the kill behind a balancer to the next delivery, %s: least, median, p99 and worst of %d", what, n),
		limit.String(), ours, worst.Seconds() / limit.Seconds(), "≤ 1.00"}
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
func killHalf(ctx context.Context, took map[string][]time.Duration) error {
	quiet := slog.New(slog.DiscardHandler)
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil),
		server.Options{NextPoll: time.Second, Logger: quiet})
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
						took[mode] = append(took[mode], time.Since(time.Unix(0, at)))
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
func killHooks(ctx context.Context, s settings) (took []time.Duration, err error) {
	address, stop, err := database()
	if err != nil {
		return nil, err
	}
	defer stop()
	receiver, err := start(ctx, "clock")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	place := fmt.Sprint(address, " ", receiver.base, " ", balancedLease)
	var both []*process
	for range 2 {
		p, err := startIn(ctx, "replica", place)
		if err != nil {
			return nil, err
		}
		both = append(both, p)
	}
	defer func() {
		for _, p := range both {
			p.stop()
		}
	}()
	if _, err := both[0].get(fmt.Sprint("/admin/subscribe?n=", balancedHooks)); err != nil {
		return nil, err
	}
	for i := range max(4, s.kills/2) {
		// By then the replicas have divided the webhooks.
		time.Sleep(2 * balancedLease)
		survivor := both[(i+1)%2]
		if err := survivor.emit(1); err != nil {
			return nil, err
		}
		if _, err := ages(receiver, balancedHooks); err != nil {
			return nil, err
		}
		both[i%2].stop()
		if err := survivor.emit(1); err != nil {
			return nil, err
		}
		some, err := ages(receiver, balancedHooks)
		if err != nil {
			return nil, err
		}
		took = append(took, some...)
		if both[i%2], err = startIn(ctx, "replica", place); err != nil {
			return nil, err
		}
	}
	return took, nil
}
