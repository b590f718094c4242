package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// bubbleStore opens a store in a bubble, with the bubble's clock and goroutines.
func bubbleStore(t *testing.T, dir string, f func(t *testing.T, s *sqlite.Store)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, "events.db"), sqlite.Options{Synchronous: sqlite.Normal})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func rows(t *testing.T, s *sqlite.Store) (n int) {
	t.Helper()
	n, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Expired entries are deleted from the file without appends or reads, in bounded steps.
func TestExpiredLeaveTheFile(t *testing.T) {
	bubbleStore(t, t.TempDir(), func(t *testing.T, s *sqlite.Store) {
		l := openLog(t, s, store.LogOptions{MaxAge: time.Hour})
		var wg sync.WaitGroup
		for w := range 25 {
			wg.Go(func() {
				for i := range 100 {
					if _, err := l.Append(context.Background(), entry(fmt.Sprint(w, ".", i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(30 * time.Minute)
		appendAll(t, l, "younger")
		time.Sleep(29 * time.Minute)
		if n := rows(t, s); n != 2501 {
			t.Fatalf("%d rows after 59 minutes", n)
		}
		time.Sleep(90 * time.Second) // the next sweep is at 61 minutes
		if more, err := sqlite.SweepSome(l); !more || err != nil || rows(t, s) != 2501-1024 {
			t.Errorf("one step: %v, %v, %d rows are left", more, err, rows(t, s))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := rows(t, s); n != 1 {
			t.Errorf("%d rows after 61.5 minutes", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := rows(t, s); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		appendAll(t, l, "next")
		if got := ids(t, l, 2501); len(got) != 1 {
			t.Errorf("after all had gone: %v", got)
		}
	})
}

// Entries beyond MaxCount are deleted from the file during appends, and the rest soon after; readers of deleted
// positions get a gap.
func TestEvictedLeaveTheFile(t *testing.T) {
	bubbleStore(t, t.TempDir(), func(t *testing.T, s *sqlite.Store) {
		l := openLog(t, s, store.LogOptions{MaxCount: 10})
		for i := range 1000 {
			appendAll(t, l, strconv.Itoa(i))
		}
		synctest.Wait()
		if n := rows(t, s); n > 10+256 {
			t.Errorf("%d rows lie in the file", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := rows(t, s); n != 10 {
			t.Errorf("%d rows after the sweep", n)
		}
		b, err := l.Read(t.Context(), 3, 100)
		if err != nil || !b.Gap || len(b.Entries) != 10 || b.Entries[0].Position != 991 {
			t.Errorf("gap %v, %d entries, error %v", b.Gap, len(b.Entries), err)
		}
	})
}

// OCC-5: an evicted entry stays evicted even if the log is opened with larger bounds before its deletion, so that its
// id is in the log once. Smaller bounds apply from the opening on.
func TestOCC5EvictedStaysEvicted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	for i, c := range []struct {
		count int
		want  string
	}{{3, "[c d a]"}, {10, "[c d a]"}, {2, "[d a]"}} {
		s := open(t, path, sqlite.Options{})
		l := openLog(t, s, store.LogOptions{MaxCount: c.count})
		if i == 0 {
			appendAll(t, l, "a", "b", "c", "d")
		}
		if _, fresh, err := l.AppendOnce(t.Context(), entry("a"), 0); fresh != (i == 0) || err != nil {
			t.Errorf("opening %d: appended %v, %v", i, fresh, err)
		}
		if got := fmt.Sprint(ids(t, l, 0)); got != c.want {
			t.Errorf("opening %d: %s, want %s", i, got, c.want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A concurrent reader sees every entry once and in order, or a gap, during eviction and deletion.
func TestReadBesideSweep(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	l := openLog(t, s, store.LogOptions{MaxCount: 1200}) // more than memory holds
	const n = 3000
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range n / 8 {
				if _, err := l.Append(context.Background(), entry(fmt.Sprint(w, ".", i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for r := range 2 {
		wg.Go(func() {
			for last := store.Position(0); last < n; {
				b, err := l.Read(context.Background(), last, 50)
				if err != nil {
					t.Errorf("reader %d after %d: %v", r, last, err)
					return
				}
				if len(b.Entries) == 0 && last < b.Head {
					t.Errorf("reader %d after %d of %d: nothing", r, last, b.Head)
					return
				}
				for i, e := range b.Entries {
					if e.Position != last+1 && (i > 0 || !b.Gap) {
						t.Errorf("reader %d: position %d after %d, gap %v", r, e.Position, last, b.Gap)
						return
					}
					last = e.Position
				}
			}
		})
	}
	wg.Wait()
}

// Close ends a sweep in progress.
func TestCloseBesideSweep(t *testing.T) {
	for range 8 {
		s := fresh(t)
		l := openLog(t, s, store.LogOptions{MaxCount: 1})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					if _, err := l.Append(context.Background(), entry(strconv.Itoa(i))); err != nil {
						return // closed
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond) // appends and sweeps are in progress, at another point in each round
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
