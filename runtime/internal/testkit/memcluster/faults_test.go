package memcluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func entry(id string) store.Entry {
	return store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: []byte(`{}`)}
}

// told records the ids that a log has delivered.
type told struct {
	mu  sync.Mutex
	ids []string
}

func (a *told) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.ids, " ")
}

// follow opens a log and records its entries.
func follow(t *testing.T, s *memcluster.Store, told *told) engine.Log {
	t.Helper()
	l, err := s.OpenLog(t.Context(), "log", store.LogOptions{Appended: func(entries []store.Entry) {
		told.mu.Lock()
		defer told.mu.Unlock()
		for _, e := range entries {
			told.ids = append(told.ids, e.EventID)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l.(engine.Log)
}

// A step with a lost answer has its effect, which the same id finds; a step that fails has none.
func TestAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memcluster.New().Open()
		var told told
		l := follow(t, s, &told)
		s.Inject(memcluster.Faults{Lost: func(op string) bool { return op == "AppendOnce log" }})
		if _, _, err := l.AppendOnce(t.Context(), entry("a"), 0); !errors.Is(err, store.ErrUncertain) {
			t.Fatalf("got %v", err)
		}
		away := errors.New("away")
		s.Inject(memcluster.Faults{Fail: func(op string) error {
			if strings.HasPrefix(op, "Append") {
				return away
			}
			return nil
		}})
		if _, err := l.Append(t.Context(), entry("b")); !errors.Is(err, away) {
			t.Fatalf("got %v", err)
		}
		s.Inject(memcluster.Faults{})
		if p, fresh, err := l.AppendOnce(t.Context(), entry("a"), 0); p != 1 || fresh || err != nil {
			t.Fatalf("asked again: %d, %v, %v", p, fresh, err)
		}
		synctest.Wait()
		if got := told.String(); got != "a" {
			t.Errorf("told of %q", got)
		}
	})
}

// Notifications take the latency; a deaf store gets none until it makes a request, or is no longer deaf.
func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := c.Open(), c.Open()
		var mine, told told
		la, lb := follow(t, a, &mine), follow(t, b, &told)
		b.Inject(memcluster.Faults{Latency: time.Second})
		put := func(id string) {
			t.Helper()
			if _, err := la.Append(t.Context(), entry(id)); err != nil {
				t.Fatal(err)
			}
		}
		want := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := told.String(); got != want {
				t.Errorf("told of %q, want %q", got, want)
			}
		}
		put("1")
		want(999*time.Millisecond, "")
		want(time.Millisecond, "1")
		b.Inject(memcluster.Faults{Deaf: true})
		put("2")
		want(time.Hour, "1")
		if seen := lb.Seen(); time.Since(seen) < time.Hour {
			t.Errorf("the last look was %v ago", time.Since(seen))
		}
		if head, err := lb.CatchUp(t.Context(), 2); head != 2 || err != nil {
			t.Errorf("CatchUp = %d, %v", head, err)
		}
		want(0, "1 2")
		put("3")
		b.Inject(memcluster.Faults{})
		want(0, "1 2 3")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		put("4")
		want(time.Minute, "1 2 3")
		if _, err := lb.CatchUp(t.Context(), 4); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a closed store: %v", err)
		}
	})
}

// An outlived lease owns nothing; a request that takes longer than its context ends with it.
func TestLeasesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := c.Open(), c.Open()
		l, err := a.Join(t.Context(), "a", time.Hour, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Outlive(l.Fence)
		if found, err := b.Cluster(t.Context()); err != nil || len(found.Replicas) != 0 {
			t.Errorf("%+v, %v", found, err)
		}
		a.Inject(memcluster.Faults{Latency: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a slow network: %v", err)
		}
		if _, err := a.Renew(t.Context(), l.Fence, time.Hour, nil, nil); !errors.Is(err, engine.ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
}

// In a new epoch the last entries are gone, and the old logs return an error.
func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		s := c.Open()
		var told told
		l := follow(t, s, &told)
		for _, id := range []string{"a", "b", "c"} {
			if _, err := l.Append(t.Context(), entry(id)); err != nil {
				t.Fatal(err)
			}
		}
		h := engine.ShardFence{Shard: engine.Shard{Topic: engine.RetentionTopic}}
		lease, err := s.Join(t.Context(), "a", time.Hour, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Fence = lease.Fence
		if _, err := s.Establish(t.Context(), h.Shard.Topic, 1); err != nil {
			t.Fatal(err)
		}
		if won, err := s.Claim(t.Context(), h.Fence, []engine.ShardFence{{Shard: h.Shard}}); len(won) != 1 || err != nil {
			t.Fatal(won, err)
		}
		if err := c.BeginEpoch(2); err != nil {
			t.Fatal(err)
		}
		if err := s.Owned(h).SaveProgress(t.Context(), nil); !errors.Is(err, engine.ErrFenced) {
			t.Errorf("the hold of before is good: %v", err)
		}
		_, appends := l.Append(t.Context(), entry("d"))
		_, reads := l.Read(t.Context(), 0, 1)
		for _, err := range []error{appends, reads} {
			if !errors.Is(err, engine.ErrNewEpoch) {
				t.Errorf("got %v", err)
			}
		}
		again := follow(t, s, &told)
		if _, head, err := again.Bounds(t.Context()); head != 1 || err != nil || again.Epoch() == l.Epoch() {
			t.Errorf("head %d, epochs %d and %d, %v", head, l.Epoch(), again.Epoch(), err)
		}
		if p, err := again.Append(t.Context(), entry("d")); p != 2 || err != nil {
			t.Errorf("Append = %d, %v", p, err)
		}
		if got := told.String(); got != "a b c d" {
			t.Errorf("told of %q", got)
		}
	})
}
