package memory

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// opened returns an exclusive engine in its current life.
func opened(t testing.TB) *Engine {
	t.Helper()
	e := New()
	if _, err := e.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func commit(t testing.TB, e engine.Engine, writes ...store.Write) []uint64 {
	t.Helper()
	revisions, err := e.Commit(t.Context(), &store.Commit{Call: 1, Writes: writes})
	if err != nil {
		t.Fatal(err)
	}
	return revisions
}

// held returns how many records and tombstones the engine has in memory.
func (e *Engine) held() (existing, deleted, due int) {
	e.db.mu.Lock()
	defer e.db.mu.Unlock()
	rs := &e.db.records
	return rs.existing.Len(), rs.deleted.Len(), rs.due.Len()
}

// Commits and scans free what is overdue, a bounded number at a time, and faster than it is added.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t)
		const n = 5000
		for i := range n {
			commit(t, e, store.Write{Key: fmt.Sprintf("a/%d", i), Value: store.Bytes{}, Until: time.Now().Add(time.Minute)},
				store.Write{Key: fmt.Sprintf("b/%d", i), Value: store.Bytes{}, Once: true, Until: time.Now().Add(time.Minute)})
		}
		want := func(existing, deleted int) {
			t.Helper()
			if x, d, due := e.held(); x != existing || d != deleted || due != existing+deleted {
				t.Errorf("%d records, %d tombstones, %d due; want %d and %d", x, d, due, existing, deleted)
			}
		}
		want(2*n, 0)
		time.Sleep(time.Minute + time.Second)
		if _, err := e.Scan(t.Context(), "c/", "", 10); err != nil {
			t.Fatal(err)
		}
		if existing, _, _ := e.held(); existing != 2*n-sweepStep {
			t.Errorf("a scan left %d", existing)
		}
		for range 2*n/sweepStep + 1 {
			if _, err := e.Scan(t.Context(), "c/", "", 10); err != nil {
				t.Fatal(err)
			}
		}
		want(0, n)
		time.Sleep(store.TombstoneAge + 2*time.Second)
		for i := range n/sweepStep + 1 {
			r := commit(t, e, store.Write{Key: fmt.Sprintf("c/%d", i), Value: store.Bytes{}, Once: true})
			commit(t, e, store.Write{Key: fmt.Sprintf("c/%d", i), On: r[0]})
		}
		if existing, deleted, due := e.held(); existing+deleted+due != 0 {
			t.Errorf("%d records, %d tombstones, %d due", existing, deleted, due)
		}
	})
}

// A scan that meets only overdue records frees them, and finds what follows.
func TestScanPastOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t)
		for i := range 3*maxPage + 7 {
			commit(t, e, store.Write{Key: fmt.Sprintf("a/%05d", i), Value: store.Bytes{}, Until: time.Now().Add(time.Minute)})
		}
		commit(t, e, store.Write{Key: "a/z", Value: store.Bytes{}})
		time.Sleep(time.Minute + time.Second)
		page, err := e.Scan(t.Context(), "a/", "", 1<<30)
		if err != nil || len(page) != 1 || page[0].Key != "a/z" {
			t.Errorf("%d records, %v", len(page), err)
		}
	})
}

// The clock goes on when the system's clock was set back, and follows it forward.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		if got := c.now(); !got.Equal(time.Now()) {
			t.Errorf("the clock is at %v, the system's at %v", got, time.Now())
		}
		c.answer = time.Now().Add(time.Hour).Round(0) // the system's clock was set back by an hour since
		ahead := c.now()
		if want := time.Now().Add(time.Hour); !ahead.Equal(want) {
			t.Errorf("the clock is at %v, want %v", ahead, want)
		}
		time.Sleep(time.Minute)
		if got := c.now(); got.Sub(ahead) != time.Minute {
			t.Errorf("a minute took %v", got.Sub(ahead))
		}
		c.answer = time.Now().Add(-2 * time.Hour).Round(0) // it was set forward
		if got := c.now(); !got.Equal(time.Now()) {
			t.Errorf("the clock is at %v, the system's at %v", got, time.Now())
		}
	})
}

// A typed value cannot be encoded.
type typed struct{ _ [4]uint64 }

func (typed) Bytes() []byte { panic("memory: a value was encoded") }

// Values come back as they were given, and are never encoded.
func TestTypedValues(t *testing.T) {
	e := opened(t)
	v := &typed{}
	commit(t, e, store.Write{Key: "a", Value: v})
	found, err := e.Get(t.Context(), store.Latest, "a")
	if err != nil || found[0].Value != store.Value(v) {
		t.Errorf("%v, %v", found, err)
	}
}

// An idle webhook subscription has three records. The engine needs at most 2.4 KB for them without their values.
func TestMemoryOfRecords(t *testing.T) {
	if per := bytesPerRecord(t, 30_000); per > 300 {
		t.Errorf("%d bytes per record, without its value", per)
	}
}

func key(i int) string {
	return fmt.Sprintf("pro/incident.created/%d/sub_%020d", i%16, i*7919%1_000_003)
}

// bytesPerRecord measures the memory of n records, with their keys and without their values.
func bytesPerRecord(t testing.TB, n int) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := opened(t)
	v := &typed{}
	for i := range n {
		commit(t, e, store.Write{Key: key(i), Value: v})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(e)
	return int64(after.HeapAlloc-before.HeapAlloc) / int64(n)
}
