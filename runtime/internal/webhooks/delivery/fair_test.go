package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// hang is an endpoint that never answers, as a sender with the default time limit sees it.
func hang(ctx context.Context) (int, http.Header, error) {
	select {
	case <-time.After(5 * time.Second):
		return 0, nil, &netguard.Error{Category: "timeout"}
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// TestHOOK4DeadEndpoints puts hundreds of hanging endpoints, on hosts of their own and on one that
// is shared, beside a healthy subscription: it gets its events at once.
func TestHOOK4DeadEndpoints(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("same host ", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var late atomic.Int32
				emitted := map[string]time.Time{}
				var mu sync.Mutex
				s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
					if g.sub != "sub_good" {
						return hang(ctx)
					}
					mu.Lock()
					defer mu.Unlock()
					if time.Since(emitted[g.id]) > 100*time.Millisecond {
						late.Add(1)
					}
					return 200, nil, nil
				}}
				o := Options{Sender: s, Workers: 64}
				dead := 500
				if shared {
					dead = 20 // more than the host has places
				}
				e := newEngine(t, o)
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				r := record("sub_good")
				r.ExpiresAt = time.Time{}
				top.join(t, e, r, false)
				mu.Lock()
				emitted["evt_first"] = time.Now()
				mu.Unlock()
				top.emit(t, "evt_first", "sub_good") // the host is known to answer
				time.Sleep(time.Second)
				for i := range dead {
					r := record(fmt.Sprint("sub_", i))
					if !shared {
						r.URL = fmt.Sprintf("http://dead%d.test/", i)
					}
					top.join(t, e, r, false)
				}
				for i := range 30 {
					id := fmt.Sprint("evt_", i)
					mu.Lock()
					emitted[id] = time.Now()
					mu.Unlock()
					top.emit(t, id)
					time.Sleep(time.Second)
				}
				if n := s.count("sub_good"); n != 31 {
					t.Errorf("%d deliveries to the healthy endpoint", n)
				}
				if late.Load() > 0 {
					t.Errorf("%d of them late", late.Load())
				}
			})
		})
	}
}

// TestHOOK4Bounds never has more attempts under way than the limits allow, and reaches them.
func TestHOOK4Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		flying, most := map[string]int{}, map[string]int{}
		enter := func(key string, by int) {
			flying[key] += by
			most[key] = max(most[key], flying[key])
		}
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			host := "a"
			if g.sub >= "sub_3" {
				host = "b"
			}
			mu.Lock()
			enter(g.sub, 1)
			enter(host, 1)
			enter("all", 1)
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			enter(g.sub, -1)
			enter(host, -1)
			enter("all", -1)
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Workers: 20, PerHost: 12, PerSubscription: 5})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		for i := range 6 {
			r := record(fmt.Sprint("sub_", i))
			if i >= 3 {
				r.URL = "http://B.test:80/x"
			}
			top.join(t, e, r, false)
		}
		for i := range 100 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for i := range 6 {
			if n := most[fmt.Sprint("sub_", i)]; n < 4 || n > 5 {
				t.Errorf("%d under way for one subscription", n)
			}
		}
		if most["a"] > 12 || most["b"] > 12 || most["a"] < 10 || most["all"] > 20 || most["all"] < 18 {
			t.Errorf("most under way: %v", most)
		}
		if len(s.all()) != 600 {
			t.Errorf("%d deliveries", len(s.all()))
		}
	})
}

// TestHOOK4Shares has principals with slow endpoints on many hosts, and fewer workers than there is to do: each keeps
// to half of the workers and of the hosts' places while there are others, and everything is delivered.
func TestHOOK4Shares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants, hosts, workers, perHost = 4, 6, 8, 4
		var mu sync.Mutex
		flying, most := map[string]int{}, map[string]int{}
		s := &script{}
		s.answer = func(_ context.Context, g got) (int, http.Header, error) {
			var tenant, host int
			if _, err := fmt.Sscanf(g.sub, "sub_%d_%d", &tenant, &host); err != nil {
				t.Error(err)
			}
			keys := []string{"all", fmt.Sprint("tenant ", tenant), fmt.Sprint("host ", host), fmt.Sprintf("tenant %d at host %d", tenant, host)}
			mu.Lock()
			for _, key := range keys {
				flying[key]++
				most[key] = max(most[key], flying[key])
			}
			mu.Unlock()
			time.Sleep(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				flying[key]--
			}
			return 200, nil, nil
		}
		e := newEngine(t, Options{Sender: s, Workers: workers, PerHost: perHost})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		for tenant := range tenants {
			for host := range hosts {
				r := record(fmt.Sprintf("sub_%d_%d", tenant, host))
				r.Principal, r.URL = fmt.Sprint(tenant), fmt.Sprintf("http://host%d.test/", host)
				top.join(t, e, r, false)
			}
		}
		synctest.Wait()
		for i := range 10 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(5 * time.Minute)
		if n := len(s.all()); n != tenants*hosts*10 {
			t.Errorf("%d deliveries", n)
		}
		mu.Lock()
		defer mu.Unlock()
		for tenant := range tenants {
			if n := most[fmt.Sprint("tenant ", tenant)]; n == 0 || n > workers/2 {
				t.Errorf("%d under way for one principal", n)
			}
			for host := range hosts {
				if n := most[fmt.Sprintf("tenant %d at host %d", tenant, host)]; n == 0 || n > perHost/2 {
					t.Errorf("%d under way for one principal at one host", n)
				}
			}
		}
		if n := most["all"]; n > workers*3/4 {
			t.Errorf("%d under way, none of them quick", n)
		}
	})
}

// TestHOOK4SlowShares counts what is under way once all endpoints are known to be slow: half of the places of a host and
// of the workers, of which one principal has half while there is another one, even if that has nothing to do. The only
// principal has no more than while its endpoints were unknown.
func TestHOOK4SlowShares(t *testing.T) {
	for _, tt := range []struct {
		name              string
		principals, hosts int // with subscriptions of each principal at each host
		workers           int
		other             bool // another principal has a subscription at the first host
		want              int
	}{
		{"several principals at a host", 4, 1, 64, false, 4},
		{"one principal at a host", 1, 1, 64, true, 2},
		{"the only principal at a host", 1, 1, 64, false, 4},
		{"one principal at several hosts", 1, 8, 8, true, 2},
		{"the only principal at several hosts", 1, 8, 8, false, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var flying, most atomic.Int32
				s := &script{answer: func(context.Context, got) (int, http.Header, error) {
					n := flying.Add(1)
					defer flying.Add(-1)
					if time.Since(began) > 3*time.Minute { // each has been sent an event, and is known to be slow
						most.Store(max(most.Load(), n))
					}
					time.Sleep(2 * time.Second)
					return 200, nil, nil
				}}
				e := newEngine(t, Options{Sender: s, Workers: tt.workers, PerHost: 8})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				var ids []string
				add := func(principal string, host int) string {
					r := record(fmt.Sprintf("sub_%s_%d_%d", principal, host, len(ids)))
					r.Principal, r.URL = principal, fmt.Sprintf("http://host%d.test/", host)
					top.join(t, e, r, false)
					return r.ID
				}
				for i := range 4 * tt.principals * tt.hosts {
					ids = append(ids, add(fmt.Sprint(i%tt.principals), i/tt.principals%tt.hosts))
				}
				if tt.other {
					add("other", 0)
				}
				for i := range 120 {
					top.emit(t, fmt.Sprint("evt_", i), ids...)
				}
				time.Sleep(5 * time.Minute)
				if n := int(most.Load()); n != tt.want {
					t.Errorf("%d under way, want %d", n, tt.want)
				}
			})
		})
	}
}

// TestHOOK4Fair gives a subscription with one event its turn among others with thousands.
func TestHOOK4Fair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			time.Sleep(10 * time.Millisecond)
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Workers: 4})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		for i := range 4 {
			r := record(fmt.Sprint("sub_", i))
			if i == 3 {
				r.URL = "http://other.test/"
			}
			top.join(t, e, r, false)
		}
		for i := range 1000 {
			top.emit(t, fmt.Sprint("evt_", i), "sub_0", "sub_1")
		}
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		top.emit(t, "evt_few", "sub_2", "sub_3")
		time.Sleep(time.Second)
		for _, g := range s.all() {
			if g.id == "evt_few" && g.at.Sub(start) > 50*time.Millisecond {
				t.Errorf("%s waited %v", g.sub, g.at.Sub(start))
			}
		}
		if s.count("sub_2") != 1 || s.count("sub_3") != 1 {
			t.Error("no delivery")
		}
	})
}

// TestHOOK4FullHost gives each principal the same number of turns at a host that more of them could fill.
func TestHOOK4FullHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			time.Sleep(950 * time.Millisecond)
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		const principals = 32
		for p := range principals {
			for i := range 1 + p%2*9 {
				r := record(fmt.Sprintf("sub_%02d_%d", p, i))
				r.Principal = fmt.Sprint(p)
				top.join(t, e, r, false)
			}
		}
		synctest.Wait()
		for i := range 100 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(time.Minute)
		turns := map[string]int{}
		for _, g := range s.all() {
			turns[g.sub[:len("sub_00")]]++
		}
		for p := range principals {
			if n := turns[fmt.Sprintf("sub_%02d", p)]; n < 20 || n > 45 {
				t.Errorf("principal %d had %d turns", p, n)
			}
		}
	})
}

// TestHOOK8UnsettledBound pauses reading when too much is unsettled, and reports it as throttled
// (HOOK-8).
func TestHOOK8UnsettledBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: refuse(500)}
		e := newEngine(t, Options{Sender: s, MaxUnsettled: 20, Suspend: Suspension{Min: 1000}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, _ := top.join(t, e, record("sub_1"), false)
		for i := range 50 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(time.Second)
		if st := h.Status(); !st.Throttled || st.RetryAfter <= 0 || st.RetryAfter > 5*time.Second || s.count("sub_1") != 20 || len(h.Progress().Settled) > 20 {
			t.Errorf("%+v after %d attempts", st, s.count("sub_1"))
		}
		time.Sleep(time.Hour - time.Minute)
		if *h.Watermark() != "c50" {
			t.Errorf("watermark %s", *h.Watermark())
		}
	})
}

// TestHOOK9Limits keeps to the rates of subscription and host, and reports the wait; what waits
// stays in the log, and what the log drops meanwhile becomes a gap.
func TestHOOK9Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		e := newEngine(t, Options{Sender: s, SubscriptionLimit: Limit{Rate: 2, Burst: 2}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{MaxCount: 30})
		h, _ := top.join(t, e, record("sub_1"), false)
		other, _ := top.join(t, e, record("sub_2"), false)
		synctest.Wait()
		for i := range 100 {
			top.emit(t, fmt.Sprint("evt_", i), "sub_1")
		}
		synctest.Wait()
		if st := h.Status(); !st.Throttled || st.RetryAfter != 500*time.Millisecond || other.Status().Throttled || !st.Active {
			t.Errorf("%+v, other %+v", st, other.Status())
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := s.count("sub_1"); n != 22 {
			t.Errorf("%d requests in ten seconds", n)
		}
		time.Sleep(5 * time.Minute)
		if cs := s.controls(); len(cs) == 0 || *h.Watermark() != "c100" || h.Status().Throttled {
			t.Errorf("%d gaps, watermark %s", len(cs), *h.Watermark())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		e := newEngine(t, Options{Sender: s, HostLimit: Limit{Rate: 10}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		for i := range 20 {
			top.join(t, e, record(fmt.Sprint("sub_", i)), false)
		}
		top.emit(t, "evt_1")
		time.Sleep(time.Second + time.Millisecond)
		if n := len(s.all()); n != 11 {
			t.Errorf("%d requests to the host in a second", n)
		}
		time.Sleep(time.Minute)
		if n := len(s.all()); n != 20 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestHOOK3TooManyRequests holds all of a subscription back for as long as a 429 asks.
func TestHOOK3TooManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.id == "evt_0" && g.attempt == 1 {
				return 429, http.Header{"Retry-After": {"30"}}, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, _ := top.join(t, e, record("sub_1"), false)
		top.emit(t, "evt_0")
		synctest.Wait()
		top.emit(t, "evt_1")
		time.Sleep(29 * time.Second)
		if st := h.Status(); s.count("sub_1") != 1 || !st.Throttled || st.RetryAfter != time.Second {
			t.Errorf("%d attempts, %+v", s.count("sub_1"), st)
		}
		time.Sleep(2 * time.Second)
		if s.count("sub_1") != 3 || *h.Watermark() != "c2" {
			t.Errorf("%d attempts, watermark %s", s.count("sub_1"), *h.Watermark())
		}
	})
}
