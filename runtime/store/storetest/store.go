// Package storetest is a test suite for stores. [TestStore] tests logs, [TestSubscriptions] tests webhook
// subscriptions, and [TestCursors] and others test client stores. The tests of an implementation call the functions for
// the interfaces that it implements.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// TestStore runs the test suite for [store.Store] on stores returned by open, and closes each of them. A durable store
// needs a separate test that its data survives a restart.
func TestStore(t *testing.T, open func(t *testing.T) store.Store) {
	testLogs(t, open)
	bubble := func(run func(*testing.T, store.Store, clock)) func(*testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t) // opened in the bubble, so that its goroutines and clock belong to it
				defer s.Close()
				run(t, s, clock{pass: time.Sleep})
			})
		}
	}
	t.Run("MaxAge evicts by the time of appending", bubble(testAge))
	t.Run("OCC-5: expired entries do not count", bubble(testOnceAge))
}

// TestStoreOfClock is like TestStore, but for stores that do not use the process's clock. The function age backdates
// everything in a store.
func TestStoreOfClock(t *testing.T, open func(t *testing.T) store.Store, age func(t *testing.T, s store.Store, by time.Duration)) {
	testLogs(t, open)
	own := func(run func(*testing.T, store.Store, clock)) func(*testing.T) {
		return func(t *testing.T) {
			s := open(t)
			defer s.Close()
			run(t, s, clock{func(d time.Duration) { age(t, s, d) }, 10 * time.Second})
		}
	}
	t.Run("MaxAge evicts by the time of appending", own(testAge))
	t.Run("OCC-5: expired entries do not count", own(testOnceAge))
}

// A clock advances time for a test. Its slack is the maximum time that can pass unnoticed during the test.
type clock struct {
	pass  func(time.Duration)
	slack time.Duration
}

func testLogs(t *testing.T, open func(t *testing.T) store.Store) {
	for _, tc := range append([]logTest{
		{"Append assigns positions from 1 without holes", testPositions},
		{"Trap 2: concurrent appends, a reader sees a gap-free prefix", testPrefix},
		{"Appended is called in position order before Append returns", testAppended},
		{"Read beyond the head returns no entries and no gap", testHead},
		{"Appended is called inside the step that makes entries visible, one call at a time", testAppendedInside},
		{"MaxCount evicts and Read reports the gap", testCount},
		{"MaxBytes evicts, or is refused", testBytes},
		{"Large entries are read in parts", testLarge},
		{"Entries are returned unchanged", testRoundTrip},
		{"CUR-8: retained entries and the last evicted one have proofs", testProof},
		{"CUR-1: epochs differ between logs and stay for one log", testEpoch},
		{"A cancelled context appends and reads nothing", testCancelled},
		{"A batch is not changed by later appends", testStable},
		{"A closed store returns ErrClosed", testClosed},
		{"Ping reports whether the store works", testPing},
	}, onceTests...) {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { s.Close() })
			tc.run(t, s)
		})
	}
}

// A logTest is a test that runs on an open store.
type logTest struct {
	name string
	run  func(t *testing.T, s store.Store)
}

func testPositions(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	if oldest, head := check.Bounds(t, l); oldest != 1 || head != 0 {
		t.Fatalf("Bounds of an empty log = %d, %d; want 1, 0", oldest, head)
	}
	check.Add(t, l, 5)
	b := check.Read(t, l, 2, 2)
	if len(b.Entries) != 2 || b.Entries[0].Position != 3 || b.Entries[1].Position != 4 || b.Gap || b.Oldest != 1 || b.Head != 5 {
		t.Fatalf("Read(2, 2) = %+v", b)
	}
	if other := check.OpenLog(t, s, "b", store.LogOptions{}); check.Read(t, other, 0, 10).Head != 0 {
		t.Fatal("two logs share positions")
	}
}

func testPrefix(t *testing.T, s store.Store) {
	const emitters, each = 8, 50
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	var wg sync.WaitGroup
	for e := range emitters {
		wg.Go(func() {
			for i := range each {
				if _, err := l.Append(context.Background(), check.Entry(fmt.Sprintf("%d-%d", e, i))); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	seen := map[string]bool{}
	for pos := store.Position(0); pos < emitters*each; {
		b, err := l.Read(t.Context(), pos, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Entries {
			if e.Position != pos+1 {
				t.Fatalf("position %d follows %d", e.Position, pos)
			}
			if seen[e.EventID] {
				t.Fatalf("%s twice", e.EventID)
			}
			pos, seen[e.EventID] = e.Position, true
		}
	}
	wg.Wait()
}

func testAppended(t *testing.T, s store.Store) {
	var mu sync.Mutex
	var told []store.Position
	has := map[store.Position]bool{}
	l := check.OpenLog(t, s, "a", store.LogOptions{Appended: func(es []store.Entry) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range es {
			told, has[e.Position] = append(told, e.Position), true
		}
	}})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				p, err := l.Append(context.Background(), check.Entry("x"))
				mu.Lock()
				if err != nil || !has[p] {
					t.Errorf("Append of %d returned before Appended saw it (%v)", p, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, p := range told {
		if p != store.Position(i+1) {
			t.Fatalf("told %v", told)
		}
	}
	if len(told) != 100 {
		t.Fatalf("delivered %d of 100", len(told))
	}
}

// testAppendedInside delays a call to Appended. All other tests pass even if a log calls Appended without holding its
// lock. Three faults are then possible. A reader that sees the entry before Appended is called, and then waits, might
// never be woken. If a reader sees a log that ends before an entry passed to Appended, a cursor appears to belong to
// another log. The next append can also deliver its entry first, out of order.
func testAppendedInside(t *testing.T, s store.Store) {
	var l store.EventLog
	var wg sync.WaitGroup
	var inside, calls atomic.Int32
	l = check.OpenLog(t, s, "a", store.LogOptions{Appended: func([]store.Entry) {
		if inside.Add(1) > 1 {
			t.Error("Appended is called while it runs")
		}
		defer inside.Add(-1)
		if calls.Add(1) > 1 {
			return
		}
		seen := make(chan store.Position, 2)
		wg.Go(func() {
			_, head := check.Bounds(t, l)
			seen <- head
		})
		wg.Go(func() {
			if b, err := l.Read(context.Background(), 0, 1); err == nil {
				seen <- store.Position(len(b.Entries))
			}
		})
		wg.Go(func() {
			if _, err := l.Append(context.Background(), check.Entry("second")); err != nil {
				t.Error(err)
			}
		})
		for wait := time.After(100 * time.Millisecond); ; {
			select {
			case n := <-seen:
				if n > 0 {
					t.Error("an entry is visible before Appended has seen it")
				} else {
					t.Error("Bounds or Read do not return an entry that Appended is receiving")
				}
			case <-wait:
				return
			}
		}
	}})
	check.Add(t, l, 1)
	wg.Wait()
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
}

func testHead(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	check.Add(t, l, 3)
	for _, after := range []store.Position{3, 4, 1 << 60} {
		if b := check.Read(t, l, after, 10); len(b.Entries) != 0 || b.Gap || b.Head != 3 {
			t.Fatalf("Read(%d) = %+v", after, b)
		}
	}
}

func testCount(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{MaxCount: 10})
	for n := 1; n <= 57; n++ {
		check.Add(t, l, 1)
		oldest, head := check.Bounds(t, l)
		if int(head) != n || int(oldest) != max(1, n-9) {
			t.Fatalf("after %d appends Bounds = %d, %d", n, oldest, head)
		}
	}
	b := check.Read(t, l, 5, 100)
	if !b.Gap || len(b.Entries) != 10 || b.Entries[0].Position != 48 {
		t.Fatalf("Read(5) = gap %v, %d entries", b.Gap, len(b.Entries))
	}
	if b := check.Read(t, l, 47, 100); b.Gap || len(b.Entries) != 10 {
		t.Fatalf("Read just before the oldest = gap %v, %d entries", b.Gap, len(b.Entries))
	}
}

func testAge(t *testing.T, s store.Store, c clock) {
	l := check.OpenLog(t, s, "a", store.LogOptions{MaxAge: time.Minute})
	expect := func(when string, wantOldest, wantHead store.Position) {
		t.Helper()
		if oldest, head := check.Bounds(t, l); oldest != wantOldest || head != wantHead {
			t.Fatalf("%s Bounds = %d, %d; want %d, %d", when, oldest, head, wantOldest, wantHead)
		}
	}
	check.Add(t, l, 3)
	c.pass(40*time.Second - c.slack)
	check.Add(t, l, 2)
	c.pass(20 * time.Second)
	expect("at exactly MaxAge", 1, 5)
	c.pass(time.Second + c.slack)
	expect("after MaxAge", 4, 5)
	if b := check.Read(t, l, 0, 10); !b.Gap || len(b.Entries) != 2 {
		t.Fatalf("Read = gap %v, %d entries", b.Gap, len(b.Entries))
	}
	c.pass(time.Hour)
	expect("all evicted:", 6, 5)
	check.Add(t, l, 1)
	if b := check.Read(t, l, 5, 10); b.Gap || len(b.Entries) != 1 {
		t.Fatalf("after all were evicted: gap %v, %d entries", b.Gap, len(b.Entries))
	}
	c.pass(time.Second + 2*c.slack)
	check.Add(t, l, 1)
	c.pass(time.Minute - c.slack)
	expect("one is too old, one exactly MaxAge:", 7, 7)
}

func testBytes(t *testing.T, s store.Store) {
	o := store.LogOptions{MaxBytes: 1 << 20}
	if s.Durable() {
		if _, err := s.OpenLog(t.Context(), "a", o); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
			t.Fatalf("a durable store accepts MaxBytes: %v", err)
		}
		return
	}
	l := check.OpenLog(t, s, "a", o)
	e := check.Entry("large")
	e.Data = json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
	for i := range 30 {
		check.Must(l.Append(t.Context(), e))(t)
		oldest, head := check.Bounds(t, l)
		if kept := int(head - oldest + 1); kept > 10 || kept < min(i+1, 8) {
			t.Fatalf("after %d entries of 100 KiB %d are kept", i+1, kept)
		}
	}
	if b := check.Read(t, l, 1, 100); !b.Gap || len(b.Entries) == 0 || b.Entries[0].Position != b.Oldest {
		t.Fatalf("gap %v, %d entries", b.Gap, len(b.Entries))
	}
	e.Data = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	for range 2 {
		check.Must(l.Append(t.Context(), e))(t)
		if oldest, head := check.Bounds(t, l); oldest != head {
			t.Fatalf("positions %d to %d are kept next to an entry larger than the limit", oldest, head)
		}
	}
}

func testLarge(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	e := check.Entry("large")
	e.Data = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	const n = 30
	for range n {
		check.Must(l.Append(t.Context(), e))(t)
	}
	for at := store.Position(0); at < n; {
		b := check.Read(t, l, at, 100)
		if len(b.Entries) == 0 || b.Gap || b.Head != n {
			t.Fatalf("after %d: %d entries, gap %v, head %d", at, len(b.Entries), b.Gap, b.Head)
		}
		if s.Durable() && len(b.Entries) > 17 {
			t.Errorf("%d entries of 1 MiB came in one batch", len(b.Entries))
		}
		for _, e := range b.Entries {
			if at++; e.Position != at || len(e.Data) != 1<<20+2 {
				t.Fatalf("position %d of %d bytes after %d", e.Position, len(e.Data), at)
			}
		}
	}
}

func testRoundTrip(t *testing.T, s store.Store) {
	at, err := events.ParseTime("2026-11-20t08:00:00.120+02:00")
	if err != nil {
		t.Fatal(err)
	}
	want := store.Entry{EventID: "evt_1", Timestamp: at, Data: json.RawMessage(`{"n":12345678901234567890}`),
		Meta: json.RawMessage(`{"k":"v"}`), Targets: []string{"sub_1", "sub_2"}, Cursor: "c"}
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	if _, err := l.Append(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	check.Add(t, l, 1)
	b := check.Read(t, l, 0, 10)
	got := b.Entries[0]
	if got.EventID != want.EventID || got.Timestamp.String() != at.String() || string(got.Data) != string(want.Data) ||
		string(got.Meta) != string(want.Meta) || len(got.Targets) != 2 || got.Targets[1] != "sub_2" || got.Cursor != "c" {
		t.Fatalf("got %+v", got)
	}
	if b.Entries[1].Targets != nil || len(b.Entries[1].Meta) != 0 {
		t.Fatalf("nil members were returned as %+v", b.Entries[1])
	}
}

func testEpoch(t *testing.T, s store.Store) {
	a, b := check.OpenLog(t, s, "a", store.LogOptions{}), check.OpenLog(t, s, "b", store.LogOptions{})
	if a.Epoch() == 0 || a.Epoch() == b.Epoch() {
		t.Fatalf("epochs %d and %d", a.Epoch(), b.Epoch())
	}
	check.Add(t, a, 2)
	again := check.OpenLog(t, s, "a", store.LogOptions{})
	if again.Epoch() != a.Epoch() || check.Read(t, again, 0, 10).Head != 2 {
		t.Fatal("reopening a log lost it")
	}
}

func testProof(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	for _, none := range []store.Position{0, 1, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
		check.Equal(t, check.Proof(t, l, none), uint32(0))
	}
	large := check.Entry("large")
	large.Data = json.RawMessage(`"` + strings.Repeat("\u0000é", 1000) + `"`)
	at, err := events.ParseTime("2026-11-20T08:00:00.120+02:00")
	if err != nil {
		t.Fatal(err)
	}
	given := []store.Entry{check.Entry("x"), check.Entry("y"), large, {EventID: "é", Timestamp: at, Data: json.RawMessage(`{}`), Targets: []string{"t"}}}
	for i := range given {
		check.Must(l.Append(t.Context(), given[i]))(t)
	}
	for i, e := range check.Read(t, l, 0, len(given)).Entries {
		want := given[i].Proof()
		check.Equal(t, check.Proof(t, l, e.Position), want)
		check.Equal(t, e.Proof(), want)
	}
	check.Equal(t, check.Proof(t, l, 5), uint32(0))
	other := given[0] // the same id at the same position is a different entry
	other.Timestamp = at
	if other.Proof() == given[0].Proof() {
		t.Error("another time, and the same proof")
	}
	l = check.OpenLog(t, s, "a", store.LogOptions{MaxCount: 2})
	check.Must(l.Append(t.Context(), given[0]))(t)
	oldest, _ := check.Bounds(t, l)
	check.Equal(t, oldest, store.Position(4))
	check.Equal(t, check.Proof(t, l, 3), given[2].Proof()) // the last evicted one
	for range 3000 {                                       // more than any log keeps in memory
		check.Must(l.Append(t.Context(), given[1]))(t)
	}
	check.Equal(t, check.Proof(t, l, 3003), given[1].Proof())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Proof(ctx, 3003); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	check.Must(0, s.Close())(t)
	if _, err := l.Proof(t.Context(), 3003); !errors.Is(err, store.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func testCancelled(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	check.Add(t, l, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Append(ctx, check.Entry("x")); !errors.Is(err, context.Canceled) {
		t.Fatalf("Append = %v", err)
	}
	if _, err := l.Read(ctx, 0, 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("Read = %v", err)
	}
	if _, err := s.OpenLog(ctx, "b", store.LogOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("OpenLog = %v", err)
	}
	check.Add(t, l, 1)
}

func testStable(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{MaxCount: 4})
	check.Add(t, l, 4)
	b := check.Read(t, l, 0, 4)
	check.Add(t, l, 20)
	for i, e := range b.Entries {
		if e.Position != store.Position(i+1) || e.EventID != fmt.Sprint("e", i+1) {
			t.Fatalf("entry %d became %+v", i, e)
		}
	}
}

func testClosed(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
	if _, err := l.Append(t.Context(), check.Entry("x")); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("Append = %v", err)
	}
	if _, err := l.Read(t.Context(), 0, 1); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("Read = %v", err)
	}
	if _, err := s.OpenLog(t.Context(), "b", store.LogOptions{}); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("OpenLog = %v", err)
	}
}

func testPing(t *testing.T, s store.Store) {
	p, ok := s.(store.Pinger)
	if !ok {
		t.Skip("the store is not a Pinger")
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that has ended: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("closed: %v", err)
	}
}
