package enginetest

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
)

// A witness records the entries that a log passes to Appended.
type witness struct {
	mu   sync.Mutex
	told []store.Entry
}

func (w *witness) options() store.LogOptions {
	return store.LogOptions{Appended: func(entries []store.Entry) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, entries...)
	}}
}

func (w *witness) all() []store.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func (w *witness) has(id string) bool {
	return slices.ContainsFunc(w.all(), func(e store.Entry) bool { return e.EventID == id })
}

func (w *witness) ids() (ids []string) {
	for _, e := range w.all() {
		ids = append(ids, e.EventID)
	}
	return ids
}

func sharedOrder(t *testing.T, a, b engine.Shared) {
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
					if !seen[i].has(id) {
						t.Errorf("Append of %s at %d returned before Appended saw it", id, p)
					}
				}
			})
		}
	}
	wg.Wait()
	const all = 2 * writers * each
	for i := range seen {
		WaitUntil(t, "everything is delivered", func() bool { return len(seen[i].all()) >= all })
		distinct := map[string]bool{}
		for n, e := range seen[i].all() {
			if e.Position != store.Position(n+1) {
				t.Fatalf("opener %d: entry %d has position %d", i, n, e.Position)
			}
			distinct[e.EventID] = true
		}
		if len(distinct) != all {
			t.Fatalf("opener %d saw %d different entries, want %d", i, len(distinct), all)
		}
	}
	check.Equal(t, seen[0].ids(), seen[1].ids())
	check.Equal(t, check.OpenLog(t, a, "log", store.LogOptions{}).Epoch(), check.OpenLog(t, b, "log", store.LogOptions{}).Epoch())
}

func sharedLate(t *testing.T, a, b engine.Shared) {
	la := check.OpenLog(t, a, "log", store.LogOptions{})
	check.Add(t, la, 3)
	var w witness
	lb := check.OpenLog(t, b, "log", w.options())
	if _, head := check.Bounds(t, lb); head != 3 {
		t.Fatalf("head %d, want 3", head)
	}
	check.Add(t, la, 2)
	WaitUntil(t, "two entries are delivered", func() bool { return len(w.all()) == 2 })
	check.Equal(t, w.ids(), []string{"e4", "e5"})
	if p, err := lb.Append(t.Context(), check.Entry("mine")); p != 6 || err != nil {
		t.Fatalf("Append = %d, %v", p, err)
	}
	check.Equal(t, w.ids(), []string{"e4", "e5", "mine"})
	sl := lb.(engine.Log)
	before := time.Now()
	WaitUntil(t, "the log was looked at", func() bool { return sl.Seen().After(before) })
}

func sharedCatchUp(t *testing.T, a, b engine.Shared) {
	var w witness
	lb := check.OpenLog(t, b, "log", w.options()).(engine.Log)
	la := check.OpenLog(t, a, "log", store.LogOptions{})
	for range 5 {
		p := check.Must(la.Append(t.Context(), check.Entry("x")))(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				head, err := lb.CatchUp(t.Context(), p)
				if err != nil || head < p {
					t.Errorf("CatchUp(%d) = %d, %v: a false gap", p, head, err)
				}
			})
		}
		wg.Wait()
		if n := len(w.all()); n < int(p) {
			t.Fatalf("caught up with %d, but %d entries were delivered", p, n)
		}
	}
	for _, forged := range []store.Position{6, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
		if head, err := lb.CatchUp(t.Context(), forged); head != 5 || err != nil {
			t.Fatalf("CatchUp(%d) = %d, %v", forged, head, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lb.CatchUp(ctx, 99); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

func sharedOnce(t *testing.T, a, b engine.Shared) {
	logs := []store.EventLog{check.OpenLog(t, a, "log", store.LogOptions{}), check.OpenLog(t, b, "log", store.LogOptions{})}
	for round := range 10 {
		var fresh atomic.Int32
		var places sync.Map
		var wg sync.WaitGroup
		e := check.Entry(fmt.Sprint("id", round))
		for _, l := range logs {
			for range 3 {
				wg.Go(func() {
					p, first, err := l.AppendOnce(context.Background(), e, 0)
					if err != nil {
						t.Errorf("AppendOnce: %v", err)
					}
					if first {
						fresh.Add(1)
					}
					places.Store(p, true)
				})
			}
		}
		wg.Wait()
		places.Range(func(p, _ any) bool {
			if p != store.Position(round+1) {
				t.Errorf("round %d: position %v", round, p)
			}
			return true
		})
		if fresh.Load() != 1 {
			t.Fatalf("%s was appended %d times", e.EventID, fresh.Load())
		}
	}
	check.Reused(t, logs[1], check.With(check.Entry("id0"), `{}`), 0, 1)
	check.Once(t, logs[1], check.Entry("id0"), 1, 11, true) // above excludes the earlier entry
}

func sharedRetention(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	la := check.OpenLog(t, a, "log", store.LogOptions{})
	check.Add(t, la, 30)
	lb := check.OpenLog(t, b, "log", store.LogOptions{MaxCount: 10}).(engine.Log)
	check.Must(b.Establish(ctx, engine.RetentionTopic, 1))(t)
	h := claimShard(t, b, join(t, b, "keeper"), engine.RetentionTopic, 0)
	for more := true; more; {
		more = check.Must(b.Retain(ctx, h, 8))(t)
	}
	WaitUntil(t, "the other opener follows", func() bool {
		oldest, _ := check.Bounds(t, la)
		return oldest == 21
	})
	batch := check.Read(t, la, 5, 100)
	if !batch.Gap || len(batch.Entries) != 10 || batch.Entries[0].Position != 21 {
		t.Fatalf("gap %v, %d entries", batch.Gap, len(batch.Entries))
	}
	check.Once(t, lb, check.Entry("e25"), 0, 25, false)
	check.Once(t, la, check.Entry("e5"), 0, 31, true) // no longer retained
	if more := check.Must(b.Retain(ctx, h, 100))(t); more {
		t.Fatal("Retain reports more, but everything is deleted")
	}
	fresh := check.OpenLog(t, a, "another", store.LogOptions{})
	if oldest, head := check.Bounds(t, fresh); oldest != 1 || head != 0 {
		t.Fatalf("another log has %d, %d", oldest, head)
	}
}

func sharedProof(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	la := check.OpenLog(t, a, "log", store.LogOptions{})
	check.Add(t, la, 20)
	want := map[store.Position]uint32{}
	for _, e := range check.Read(t, la, 0, 20).Entries {
		want[e.Position] = e.Proof()
	}
	lb := check.OpenLog(t, b, "log", store.LogOptions{}) // it has no entries in memory
	var wg sync.WaitGroup
	for p := range store.Position(20) {
		wg.Go(func() {
			if got, err := lb.Proof(ctx, p+1); got != want[p+1] || err != nil {
				t.Errorf("Proof(%d) = %d, %v; want %d", p+1, got, err, want[p+1])
			}
		})
	}
	wg.Wait()
	lb = check.OpenLog(t, b, "log", store.LogOptions{MaxCount: 10})
	check.Must(b.Establish(ctx, engine.RetentionTopic, 1))(t)
	h := claimShard(t, b, join(t, b, "keeper"), engine.RetentionTopic, 0)
	for more := true; more; {
		more = check.Must(b.Retain(ctx, h, 4))(t)
	}
	for _, l := range []store.EventLog{lb, check.OpenLog(t, a, "log", store.LogOptions{MaxCount: 10})} {
		check.Equal(t, check.Proof(t, l, 10), want[10])
	}
	check.Equal(t, check.Proof(t, lb, 9), uint32(0))
	check.Equal(t, check.Proof(t, lb, 11), want[11])
	check.OpenLog(t, b, "log", store.LogOptions{MaxAge: time.Nanosecond}) // nothing is retained
	for more := true; more; {
		more = check.Must(b.Retain(ctx, h, 100))(t)
	}
	check.Equal(t, check.Proof(t, lb, 20), want[20])
}
