package delivery

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// idleReader is a reader that costs nothing.
type idleReader struct{}

func (idleReader) Read(_ context.Context, after store.Position, _ int) (Found, error) {
	return Found{Upto: after}, nil
}
func (idleReader) Park(store.Position) bool      { return true }
func (idleReader) Unpark() store.Position        { return 0 }
func (idleReader) Passed() store.Position        { return 0 }
func (idleReader) Cursor(store.Position) *string { return nil }
func (idleReader) Close()                        {}

// idleCost is the memory of n idle subscriptions of this engine, each with a host of its own or
// all with one, in bytes each, with the strings of their records.
func idleCost(tb testing.TB, n int, hosts bool) float64 {
	e := newEngine(tb, Options{Sender: &script{}}, memory.New())
	defer shutdown(tb, e)
	goroutines := runtime.NumGoroutine()
	before := heapInUse()
	for i := range n {
		r := record(fmt.Sprintf("sub_%032d", i))
		r.URL = fmt.Sprintf("https://receiver.example/hooks/%032d", i)
		if hosts {
			r.URL = fmt.Sprintf("https://receiver-%d.example/hooks/%032d", i, i)
		}
		if _, err := e.Add(context.Background(), Entry{Subscription: r, Reader: idleReader{}, Shard: e.whole}); err != nil {
			tb.Fatal(err)
		}
	}
	for {
		e.mu.Lock()
		busy := e.workers
		e.mu.Unlock()
		if busy == 0 {
			break
		}
		runtime.Gosched()
	}
	if err := e.Flush(context.Background()); err != nil {
		tb.Fatal(err)
	}
	cost := float64(heapInUse()-before) / float64(n)
	if g := runtime.NumGoroutine() - goroutines; g > 2 {
		tb.Errorf("%d goroutines for %d idle subscriptions", g, n)
	}
	return cost
}

// TestIdleMemory keeps an idle subscription at 1 KB, without goroutine or timer of its own. What tests before it have
// left may cost memory meanwhile: the cheapest of three counts.
func TestIdleMemory(t *testing.T) {
	for _, hosts := range []bool{false, true} {
		cost := idleCost(t, 10_000, hosts)
		for n := 1; n < 3 && cost > 1024; n++ {
			cost = min(cost, idleCost(t, 10_000, hosts))
		}
		if cost > 1024 {
			t.Errorf("%.0f bytes for an idle subscription, hosts of their own: %v", cost, hosts)
		}
	}
}

func BenchmarkIdleMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(idleCost(b, n, false), "B/subscription")
			}
		})
	}
}

// receiver counts what it accepts.
func receiver(b *testing.B) (*httptest.Server, *atomic.Int64, *atomic.Int64) {
	var requests, conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
		requests.Add(1)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	b.Cleanup(s.Close)
	return s, &requests, &conns
}

const benchSubscriptions = 64

// BenchmarkDeliveries delivers to 64 subscriptions at one receiver on loopback.
func BenchmarkDeliveries(b *testing.B) {
	s, requests, conns := receiver(b)
	g, err := netguard.New(netguard.Options{AllowOrigins: []string{s.URL}, HostConnections: 16})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	e := newEngine(b, Options{Sender: g})
	defer shutdown(b, e)
	top := newTopic(store.LogOptions{})
	for i := range benchSubscriptions {
		r := record(fmt.Sprint("sub_", i))
		r.URL = s.URL + "/hooks/" + strconv.Itoa(i)
		top.join(b, e, r, false)
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	for i := range (b.N + benchSubscriptions - 1) / benchSubscriptions {
		top.emit(b, "evt_"+strconv.Itoa(i))
	}
	want := int64((b.N + benchSubscriptions - 1) / benchSubscriptions * benchSubscriptions)
	for requests.Load() < want {
		time.Sleep(100 * time.Microsecond)
	}
	b.ReportMetric(float64(want)/time.Since(start).Seconds(), "deliveries/s")
	b.ReportMetric(float64(conns.Load()), "conns")
}

// BenchmarkPlainPosts is the limit: signed POSTs of a prebuilt body over as many kept connections.
func BenchmarkPlainPosts(b *testing.B) {
	s, requests, conns := receiver(b)
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}}
	defer c.CloseIdleConnections()
	body := []byte(`{"eventId":"evt_1","name":"test","timestamp":"2026-11-20T08:00:00.123456789Z","data":{},"cursor":"c100"}`)
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				req, err := http.NewRequest(http.MethodPost, s.URL+"/hooks/1", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				stamp := strconv.FormatInt(time.Now().Unix(), 10)
				mac := hmac.New(sha256.New, oldKey)
				mac.Write([]byte("evt_1." + stamp + "."))
				mac.Write(body)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("webhook-id", "evt_1")
				req.Header.Set("webhook-timestamp", stamp)
				req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
				req.Header.Set("X-MCP-Subscription-Id", "sub_1")
				resp, err := c.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(requests.Load())/time.Since(start).Seconds(), "deliveries/s")
	b.ReportMetric(float64(conns.Load()), "conns")
}

// null answers without a network.
type null struct{ n atomic.Int64 }

func (s *null) Send(context.Context, netguard.Request) (*netguard.Answer, error) {
	s.n.Add(1)
	return &netguard.Answer{Status: http.StatusNoContent}, nil
}

// BenchmarkFanOut is what the engine itself costs: one occurrence to 10,000 subscriptions at 1,000
// hosts, without a network, with progress stored in memory.
func BenchmarkFanOut(b *testing.B) {
	s := &null{}
	e := newEngine(b, Options{Sender: s}, memory.New())
	defer shutdown(b, e)
	top := newTopic(store.LogOptions{})
	const n = 10_000
	for i := range n {
		r := record(fmt.Sprint("sub_", i))
		r.URL = fmt.Sprintf("https://receiver-%d.example/hooks/%d", i%1000, i)
		top.join(b, e, r, false)
	}
	b.ReportAllocs()
	want := int64(0)
	for b.Loop() {
		top.emit(b, "evt")
		want += n
		for s.n.Load() < want {
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(want), "ns/delivery")
}
