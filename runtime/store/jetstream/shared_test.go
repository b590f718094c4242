package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// two opens one new store of the cluster twice, as two processes do.
func two(t *testing.T) (a, b *jetstream.Store) {
	t.Helper()
	o := jetstream.Options{Namespace: space()}
	return open(t, cluster[0].ClientURL(), o), open(t, cluster[1].ClientURL(), o)
}

// A witness records the entries that a log delivers.
type witness struct {
	mu   sync.Mutex
	told []store.Entry
}

func (w *witness) options() store.LogOptions {
	return store.LogOptions{MaxCount: 100_000, Appended: func(es []store.Entry) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, es...)
	}}
}

func (w *witness) ids() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.told {
		ids = append(ids, fmt.Sprint(e.Position, " ", e.EventID))
	}
	return ids
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) { // by the servers' clock
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestTwoOpeners(t *testing.T) {
	t.Run("REP-1, REP-2, JS-8: appends of two are told to both, in order, once, the own ones before Append returns", func(t *testing.T) {
		a, b := two(t)
		toldToBoth(t, a, b)
	})
	t.Run("JS-8: also where nothing that is republished comes", func(t *testing.T) {
		o := jetstream.Options{Namespace: space(), Poll: 20 * time.Millisecond}
		a, b := open(t, cluster[0].ClientURL(), o), open(t, cluster[1].ClientURL(), o)
		a.Deafen()
		b.Deafen()
		toldToBoth(t, a, b)
	})
	t.Run("REP-2: opening a log late tells of what comes after, and the log is looked at", func(t *testing.T) {
		a, b := two(t)
		la := check.OpenLog(t, a, "log", store.LogOptions{})
		check.Add(t, la, 3)
		var w witness
		lb := check.OpenLog(t, b, "log", w.options())
		if _, head := check.Bounds(t, lb); head != 3 {
			t.Fatalf("head %d, want 3", head)
		}
		check.Add(t, la, 2)
		eventually(t, "two are told", func() bool { return len(w.ids()) == 2 })
		if p, err := lb.Append(t.Context(), check.Entry("mine")); p != 6 || err != nil {
			t.Fatalf("Append = %d, %v", p, err)
		}
		check.Equal(t, w.ids(), []string{"4 e4", "5 e5", "6 mine"})
		before := time.Now()
		eventually(t, "the log was looked at", func() bool { return lb.(engine.Log).Seen().After(before) })
		check.Equal(t, la.Epoch(), lb.Epoch())
	})
	t.Run("REP-3, JS-9: a position that another appended is found by asking", func(t *testing.T) {
		o := jetstream.Options{Namespace: space(), Poll: time.Hour}
		a, b := open(t, cluster[0].ClientURL(), o), open(t, cluster[1].ClientURL(), o)
		b.Deafen()
		la, lb := check.OpenLog(t, a, "log", store.LogOptions{}), check.OpenLog(t, b, "log", store.LogOptions{}).(engine.Log)
		check.Add(t, la, 7)
		before := time.Now()
		if head := check.Must(lb.CatchUp(t.Context(), 7))(t); head != 7 {
			t.Fatalf("head %d", head)
		}
		if !lb.Seen().After(before) {
			t.Error("asking does not count as a look")
		}
		if head := check.Must(lb.CatchUp(t.Context(), 1<<40))(t); head != 7 {
			t.Fatalf("head %d", head)
		}
		check.Equal(t, len(check.Read(t, lb, 0, 100).Entries), 7)
	})
	t.Run("REP-4, JS-3, JS-4: of two that append one id at once one appends", func(t *testing.T) {
		a, b := two(t)
		logs := []store.EventLog{check.OpenLog(t, a, "log", store.LogOptions{}), check.OpenLog(t, b, "log", store.LogOptions{})}
		for round := range 20 {
			var wg sync.WaitGroup
			var fresh atomic.Int32
			for i := range 8 {
				wg.Go(func() {
					p, first, err := logs[i%2].AppendOnce(context.Background(), check.Entry(fmt.Sprint("id", round)), 0)
					if err != nil || p != store.Position(round+1) {
						t.Errorf("AppendOnce = %d, %v", p, err)
					}
					if first {
						fresh.Add(1)
					}
				})
			}
			wg.Wait()
			if fresh.Load() != 1 {
				t.Fatalf("id%d was appended %d times", round, fresh.Load())
			}
		}
		check.Reused(t, logs[1], check.With(check.Entry("id0"), `{}`), 0, 1)
		check.Once(t, logs[1], check.Entry("id0"), 1, 21, true)
	})
	t.Run("JS-10: what another's limits evicted is a gap", func(t *testing.T) {
		a, b := two(t)
		la, lb := check.OpenLog(t, a, "log", store.LogOptions{}), check.OpenLog(t, b, "log", store.LogOptions{})
		check.Add(t, la, 30)
		check.Must(lb.(engine.Log).CatchUp(t.Context(), 30))(t)
		check.OpenLog(t, a, "log", store.LogOptions{MaxCount: 10})
		eventually(t, "the other opener follows", func() bool {
			oldest, _ := check.Bounds(t, lb)
			return oldest == 21
		})
		if batch := check.Read(t, la, 5, 100); !batch.Gap || len(batch.Entries) != 10 {
			t.Fatalf("gap %v, %d entries", batch.Gap, len(batch.Entries))
		}
		check.Once(t, la, check.Entry("e25"), 0, 25, false)
		check.Once(t, la, check.Entry("e5"), 0, 31, true)
	})
}

func toldToBoth(t *testing.T, a, b *jetstream.Store) {
	const writers, each = 4, 25
	var seen [2]witness
	var wg sync.WaitGroup
	logs := []store.EventLog{check.OpenLog(t, a, "log", seen[0].options()), check.OpenLog(t, b, "log", seen[1].options())}
	for i, l := range logs {
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					id := fmt.Sprintf("%d-%d-%d", i, w, n)
					p, err := l.Append(context.Background(), check.Entry(id))
					if err != nil {
						t.Errorf("Append: %v", err)
					}
					if !slices.Contains(seen[i].ids(), fmt.Sprint(p, " ", id)) {
						t.Errorf("Append of %s at %d returned before Appended was told", id, p)
					}
				}
			})
		}
	}
	wg.Wait()
	const all = 2 * writers * each
	for i := range seen {
		eventually(t, "everything is told", func() bool { return len(seen[i].ids()) >= all })
	}
	for n, e := range seen[0].told {
		if e.Position != store.Position(n+1) {
			t.Fatalf("entry %d has position %d", n, e.Position)
		}
	}
	check.Equal(t, seen[0].ids(), seen[1].ids())
	check.Equal(t, len(seen[0].ids()), all)
}

// A log whose name is not an event type has a separate stream, and names that differ only by case have two (JS-12).
func TestNames(t *testing.T) {
	s := single(t)
	for i, name := range []string{"a.b", "a~b", "A.b", "/control", "a b", "*", ">", "ö"} {
		l := check.OpenLog(t, s, name, store.LogOptions{MaxCount: 10})
		check.Once(t, l, check.Entry(name), 0, 1, true)
		if b := check.Read(t, l, 0, 10); len(b.Entries) != 1 || b.Entries[0].EventID != name {
			t.Errorf("log %d: %+v", i, b)
		}
	}
	for _, name := range []string{"", string(make([]byte, 1025))} {
		if _, err := s.OpenLog(t.Context(), name, store.LogOptions{}); err == nil {
			t.Errorf("a name of %d bytes is taken", len(name))
		}
	}
}

func TestLeaderLost(t *testing.T) {
	// JS-41: acknowledged entries exist once after the log's leader has gone, and appends continue.
	servers := three(t.TempDir())
	t.Cleanup(func() { stop(servers...) })
	s := open(t, urls(servers...), jetstream.Options{Namespace: "lost"})
	l := check.OpenLog(t, s, "log", store.LogOptions{MaxCount: 10_000})
	check.Add(t, l, 10)
	leader := -1
	for i, one := range servers {
		if one.JetStreamIsStreamLeader("$G", "LOST_L_log") {
			leader = i
		}
	}
	if leader < 0 {
		t.Fatal("no server leads the log")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var acknowledged sync.Map
	for w := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprint(w, "-", n)
				for { // as an author retries
					p, _, err := l.AppendOnce(t.Context(), check.Entry(id), 0)
					if err == nil {
						acknowledged.Store(p, id)
						break
					}
					if !errors.Is(err, store.ErrUncertain) && !errors.Is(err, jetstream.ErrUnreachable) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	_, before := check.Bounds(t, l)
	eventually(t, "appends run", func() bool { _, head := check.Bounds(t, l); return head > before+20 })
	stop(servers[leader])
	_, before = check.Bounds(t, l)
	eventually(t, "appends go on", func() bool { _, head := check.Bounds(t, l); return head > before+100 })
	cancel()
	wg.Wait()
	again := open(t, urls(slices.Delete(slices.Clone(servers), leader, leader+1)...), jetstream.Options{Namespace: "lost"})
	l2 := check.OpenLog(t, again, "log", store.LogOptions{MaxCount: 10_000})
	check.Equal(t, l2.Epoch(), l.Epoch())
	stands, ids := map[store.Position]string{}, map[string]bool{}
	for at := store.Position(0); ; {
		b := check.Read(t, l2, at, 1000)
		if len(b.Entries) == 0 {
			break
		}
		for _, e := range b.Entries {
			if at++; e.Position != at || ids[e.EventID] {
				t.Fatalf("position %d holds %s after %d", e.Position, e.EventID, at-1)
			}
			stands[at], ids[e.EventID] = e.EventID, true
		}
	}
	acknowledged.Range(func(p, id any) bool {
		if stands[p.(store.Position)] != id {
			t.Errorf("%s was acknowledged at %d, where stands %q", id, p, stands[p.(store.Position)])
		}
		return true
	})
}
