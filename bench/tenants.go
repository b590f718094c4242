package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

const (
	noisyConnections = 32  // of a noisy tenant that polls
	noisyStreams     = 100 // of a noisy tenant that streams
)

// principalHeader contains the principal of a request to serveTenants.
const principalHeader = "Bench-Principal"

// tenantURL returns the URL by which a server of kind tenants knows the principal.
func tenantURL(base, name string, i int) string {
	return fmt.Sprintf("%s/mcp?principal=%s%d", base, name, i)
}

// serveTenants is like serveOurs with the principals of tenantURL.
func serveTenants(mux *http.ServeMux, _ string) error {
	inside := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(principalHeader, r.URL.Query().Get("principal"))
		inside.ServeHTTP(w, r)
	})
	return serveOurs(inside, newServer(), server.Options{
		Principal: func(_ context.Context, extra *mcp.RequestExtra) string { return extra.Header.Get(principalHeader) }}, nil)
}

// serveNoisy is a process of noisy tenants. place consists of "polls" or "streams", the number of tenants and the URL of
// the server.
func serveNoisy(_ *http.ServeMux, place string) error {
	var what, base string
	var n int
	if _, err := fmt.Sscan(place, &what, &n, &base); err != nil {
		return err
	}
	for i := range n {
		url := tenantURL(base, "noisy", i)
		if what == "streams" {
			if _, err := openStreams(context.Background(), url, noisyStreams, nil); err != nil {
				return err
			}
			continue
		}
		f, err := poll(context.Background(), keepAlive(noisyConnections), url)
		if err != nil {
			return err
		}
		go closedLoop(context.Background(), noisyConnections, math.MaxInt64, f)
	}
	return nil
}

// benchTenants measures how long polls of quiet principals take, and how old events are when they arrive on streams of
// quiet principals. It measures both without and with noisy tenants of the same server. For comparison, it also measures
// a server that only writes prebuilt bytes.
func benchTenants(b *bench) {
	for _, part := range []struct {
		name, noise string
		quiet       func(b *bench, p *process) []float64
	}{
		{"polls", fmt.Sprintf("poll without a pause by %d connections each", noisyConnections), quietPolls},
		{"streams", fmt.Sprintf("have %d streams each", noisyStreams), quietStreams},
	} {
		servers := []*process{b.start("limit"), b.start("tenants")}
		alone, beside := make([]latencies, len(servers)), map[int][]latencies{}
		for _, n := range noisyTenants {
			beside[n] = make([]latencies, len(servers))
		}
		for range b.rounds {
			for i, p := range servers {
				alone[i].add(part.quiet(b, p))
				for _, n := range noisyTenants {
					noisy := b.start("noisy", part.name, n, p.base)
					beside[n][i].add(part.quiet(b, p))
					noisy.stop()
				}
			}
		}
		for _, n := range noisyTenants {
			limit, ours := alone[1], beside[n][1]
			b.against(fmt.Sprintf("quiet %s, p99, tenants that %s: %d; limit: none", part.name, part.noise, n), limit.p99, ours.p99, duration, "")
			b.note(fmt.Sprintf("p50 %s; net/http alone p99 %s", duration(median(ours.p50)), duration(median(beside[n][0].p99))))
		}
	}
}

// quietPolls makes quiet principals poll 20 times a second and returns how long the polls took in seconds.
func quietPolls(b *bench, p *process) (took []float64) {
	hc := keepAlive(quietPrincipals)
	defer hc.CloseIdleConnections()
	var polls []func(context.Context) error
	for i := range quietPrincipals {
		f, err := poll(b, hc, tenantURL(p.base, "quiet", i))
		b.check(err)
		polls = append(polls, f)
	}
	var next atomic.Int64
	var mu sync.Mutex
	_, _, err := closedLoop(b, quietPrincipals, b.duration/2, func(ctx context.Context) error {
		begin := time.Now()
		err := polls[next.Add(1)%quietPrincipals](ctx)
		mu.Lock()
		took = append(took, time.Since(begin).Seconds())
		mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		return err
	})
	b.check(err)
	return took
}

// quietStreams emits 20 events a second and returns their ages on arrival at streams of quiet principals in seconds.
func quietStreams(b *bench, p *process) (took []float64) {
	var all []*streams
	for i := range quietPrincipals {
		st, err := openStreams(b, tenantURL(p.base, "quiet", i), 1, nil)
		b.check(err)
		defer st.close()
		all = append(all, st)
	}
	var sent int64
	for begin := time.Now(); time.Since(begin) < b.duration/2; time.Sleep(50 * time.Millisecond) {
		b.emit(p, 1)
		sent++
	}
	for _, st := range all {
		st.wait(sent)
		took = append(took, st.latencies()...)
	}
	return took
}
