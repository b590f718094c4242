package storetest

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
)

// A witness is told of entries by a log.
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

func sharedOrder(t *testing.T, a, b store.Shared) {
	const writers, each = 4, 25
	var seen [2]witness
	var wg sync.WaitGroup
	logs := []store.EventLog{openLog(t, a, "log", seen[0].options()), openLog(t, b, "log", seen[1].options())}
	for i, l := range logs {
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					id := fmt.Sprintf("%d-%d-%d", i, w, n)
					p, err := l.Append(context.Background(), entry(id))
					if err != nil {
						t.Errorf("Append: %v", err)
					}
					if !seen[i].has(id) {
						t.Errorf("Append of %s at %d returned before Appended was told", id, p)
					}
				}
			})
		}
	}
	wg.Wait()
	const all = 2 * writers * each
	for i := range seen {
		eventually(t, "everything is told", func() bool { return len(seen[i].all()) >= all })
		distinct := map[string]bool{}
		for n, e := range seen[i].all() {
			if e.Position != store.Position(n+1) {
				t.Fatalf("opener %d: entry %d has position %d", i, n, e.Position)
			}
			distinct[e.EventID] = true
		}
		if len(distinct) != all {
			t.Fatalf("opener %d was told of %d different entries, want %d", i, len(distinct), all)
		}
	}
	equal(t, seen[0].ids(), seen[1].ids())
	equal(t, openLog(t, a, "log", store.LogOptions{}).Epoch(), openLog(t, b, "log", store.LogOptions{}).Epoch())
}

func sharedLate(t *testing.T, a, b store.Shared) {
	la := openLog(t, a, "log", store.LogOptions{})
	add(t, la, 3)
	var w witness
	lb := openLog(t, b, "log", w.options())
	if _, head := bounds(t, lb); head != 3 {
		t.Fatalf("head %d, want 3", head)
	}
	add(t, la, 2)
	eventually(t, "two are told", func() bool { return len(w.all()) == 2 })
	equal(t, w.ids(), []string{"e4", "e5"})
	if p, err := lb.Append(t.Context(), entry("mine")); p != 6 || err != nil {
		t.Fatalf("Append = %d, %v", p, err)
	}
	equal(t, w.ids(), []string{"e4", "e5", "mine"})
	sl := lb.(store.SharedLog)
	before := time.Now()
	eventually(t, "the log was looked at", func() bool { return sl.Seen().After(before) })
}

func sharedCatchUp(t *testing.T, a, b store.Shared) {
	var w witness
	lb := openLog(t, b, "log", w.options()).(store.SharedLog)
	la := openLog(t, a, "log", store.LogOptions{})
	for range 5 {
		p := must(la.Append(t.Context(), entry("x")))(t)
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
			t.Fatalf("caught up with %d and %d were told", p, n)
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

func sharedOnce(t *testing.T, a, b store.Shared) {
	logs := []store.EventLog{openLog(t, a, "log", store.LogOptions{}), openLog(t, b, "log", store.LogOptions{})}
	for round := range 10 {
		var fresh atomic.Int32
		var places sync.Map
		var wg sync.WaitGroup
		e := entry(fmt.Sprint("id", round))
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
	reused(t, logs[1], with(entry("id0"), `{}`), 0, 1)
	once(t, logs[1], entry("id0"), 1, 11, true) // above says that the older one does not count
}

func sharedRetention(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	la := openLog(t, a, "log", store.LogOptions{})
	add(t, la, 30)
	lb := openLog(t, b, "log", store.LogOptions{MaxCount: 10}).(store.SharedLog)
	must(b.Establish(ctx, store.RetentionTopic, 1))(t)
	h := hold(t, b, join(t, b, "keeper"), store.RetentionTopic, 0)
	steps := 0
	for more := true; more; steps++ {
		more = must(b.Retain(ctx, h, 8))(t)
	}
	if steps < 3 {
		t.Errorf("20 entries went in %d steps of 8", steps)
	}
	eventually(t, "the other opener follows", func() bool {
		oldest, _ := bounds(t, la)
		return oldest == 21
	})
	batch := read(t, la, 5, 100)
	if !batch.Gap || len(batch.Entries) != 10 || batch.Entries[0].Position != 21 {
		t.Fatalf("gap %v, %d entries", batch.Gap, len(batch.Entries))
	}
	once(t, lb, entry("e25"), 0, 25, false)
	once(t, la, entry("e5"), 0, 31, true) // no longer retained
	if more := must(b.Retain(ctx, h, 100))(t); more {
		t.Fatal("there is more after everything is gone")
	}
	fresh := openLog(t, a, "another", store.LogOptions{})
	if oldest, head := bounds(t, fresh); oldest != 1 || head != 0 {
		t.Fatalf("another log has %d, %d", oldest, head)
	}
}
