package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// processTests are about a log that two processes have open.
var processTests = []test{
	{"REP-1, REP-2: each process gets all entries in order, its own before Append returns", testOrder},
	{"REP-2: a log that is opened later gets the entries that follow", testOpenedLater},
	{"REP-3: CatchUp finds entries of other processes, and no forged position", testCatchUp},
	{"REP-4: of processes that append an id at once, one appends it", testOnceProcesses},
	{"CUR-8: entries of other processes prove their identity", testProofProcesses},
	{"Retention follows the options of the latest opening", testRetention},
	{"A process that has closed gets no entries", testClosedLog},
}

// A witness keeps the entries that a log has passed to Appended.
type witness struct {
	mu      sync.Mutex
	entries []store.Entry
}

func (w *witness) options() store.LogOptions {
	return store.LogOptions{Appended: func(entries []store.Entry) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.entries = append(w.entries, entries...)
	}}
}

func (w *witness) all() []store.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.entries)
}

func (w *witness) ids() []string { return idsOf(w.all()) }

func idsOf(entries []store.Entry) (ids []string) {
	for _, e := range entries {
		ids = append(ids, e.EventID)
	}
	return ids
}

func entry(id string) store.Entry {
	return store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"id":` + strconv.Quote(id) + `}`)}
}

func with(e store.Entry, data string) store.Entry {
	e.Data = json.RawMessage(data)
	return e
}

func openLog(t *testing.T, e engine.Engine, name string, o store.LogOptions) engine.Log {
	t.Helper()
	l, err := e.OpenLog(t.Context(), name, o)
	if err != nil {
		t.Fatalf("OpenLog(%q): %v", name, err)
	}
	return l
}

// appendAll appends entries one by one, without Once.
func appendAll(t *testing.T, l engine.Log, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if done := group(t, l, engine.Append{Entry: entry(id)}); !done[0].Fresh {
			t.Fatalf("Append of %s: %+v", id, done)
		}
	}
}

// group appends a group.
func group(t *testing.T, l engine.Log, g ...engine.Append) []engine.Appended {
	t.Helper()
	done, err := l.Append(t.Context(), g...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	if len(done) != len(g) {
		t.Fatalf("Append of %d entries: %d results", len(g), len(done))
	}
	return done
}

// contents returns the ids of all entries, and checks their positions.
func contents(t *testing.T, l engine.Log) (ids []string) {
	t.Helper()
	head, err := l.CatchUp(t.Context(), 1<<40)
	if err != nil {
		t.Fatalf("CatchUp: %v", err)
	}
	for at := store.Position(0); at < head; {
		b := read(t, l, at, 1000)
		if len(b.Entries) == 0 {
			t.Fatalf("Read returns nothing after %d of %d", at, head)
		}
		for _, e := range b.Entries {
			if at++; e.Position != at {
				t.Fatalf("position %d after %d", e.Position, at-1)
			}
			ids = append(ids, e.EventID)
		}
	}
	return ids
}

func read(t *testing.T, l engine.Log, after store.Position, limit int) store.Batch {
	t.Helper()
	b, err := l.Read(t.Context(), after, limit)
	if err != nil {
		t.Fatalf("Read(%d, %d): %v", after, limit, err)
	}
	return b
}

func bounds(t *testing.T, l engine.Log) (oldest, head store.Position) {
	t.Helper()
	oldest, head, err := l.Bounds(t.Context())
	if err != nil {
		t.Fatalf("Bounds: %v", err)
	}
	return oldest, head
}

func proof(t *testing.T, l engine.Log, p store.Position) uint32 {
	t.Helper()
	n, err := l.Proof(t.Context(), p)
	if err != nil {
		t.Fatalf("Proof(%d): %v", p, err)
	}
	return n
}

func testOrder(t *testing.T, w *world) {
	const writers, each = 4, 25
	a, b := w.pair()
	var seen [2]witness
	logs := []engine.Log{openLog(t, a, "log", seen[0].options())}
	if a != b {
		logs = append(logs, openLog(t, b, "log", seen[1].options()))
	}
	var wg sync.WaitGroup
	for i, l := range logs {
		for writer := range writers {
			wg.Go(func() {
				for n := range each {
					id := fmt.Sprintf("%d-%d-%d", i, writer, n)
					done, err := l.Append(context.Background(), engine.Append{Entry: entry(id)})
					if err != nil {
						t.Errorf("Append: %v", err)
						return
					}
					if !slices.Contains(seen[i].ids(), id) {
						t.Errorf("Append of %s at %d returned before Appended", id, done[0].Position)
					}
				}
			})
		}
	}
	wg.Wait()
	all := len(logs) * writers * each
	for i := range logs {
		eventually(t, "a process gets all entries", func() bool { return len(seen[i].all()) >= all })
		distinct := map[string]bool{}
		for n, e := range seen[i].all() {
			if e.Position != store.Position(n+1) {
				t.Fatalf("process %d: entry %d has position %d", i, n, e.Position)
			}
			distinct[e.EventID] = true
		}
		if len(distinct) != all {
			t.Errorf("process %d got %d different entries of %d", i, len(distinct), all)
		}
		if got := seen[i].ids(); !slices.Equal(got, seen[0].ids()) || !slices.Equal(got, contents(t, logs[i])) {
			t.Errorf("process %d got another order", i)
		}
		if logs[i].Epoch() != logs[0].Epoch() || logs[i].Epoch() == 0 {
			t.Errorf("epochs %d and %d", logs[0].Epoch(), logs[i].Epoch())
		}
	}
}

func testOpenedLater(t *testing.T, w *world) {
	a, b := w.pair()
	la := openLog(t, a, "log", store.LogOptions{})
	appendAll(t, la, "e1", "e2", "e3")
	var seen witness
	lb := openLog(t, b, "log", seen.options())
	if oldest, head := bounds(t, lb); oldest != 1 || head != 3 {
		t.Errorf("Bounds = %d, %d; want 1, 3", oldest, head)
	}
	appendAll(t, la, "e4", "e5")
	eventually(t, "the later one gets two entries", func() bool { return len(seen.all()) == 2 })
	appendAll(t, lb, "mine")
	if got := seen.ids(); !slices.Equal(got, []string{"e4", "e5", "mine"}) {
		t.Errorf("got %v", got)
	}
	before := time.Now()
	eventually(t, "the log was read", func() bool { return lb.Seen().After(before) })
	// Opened again, it has the same entries and epoch, and the new Appended only.
	var next witness
	again := openLog(t, b, "log", next.options())
	appendAll(t, la, "e7")
	eventually(t, "the new one gets an entry", func() bool { return len(next.all()) == 1 })
	if len(seen.all()) != 3 || again.Epoch() != lb.Epoch() || len(contents(t, again)) != 7 {
		t.Errorf("opened again: the earlier Appended got %v, the log has %v", seen.ids(), contents(t, again))
	}
	other := openLog(t, b, "other", store.LogOptions{})
	if oldest, head := bounds(t, other); oldest != 1 || head != 0 || other.Epoch() == lb.Epoch() {
		t.Errorf("another log has the bounds %d, %d and epoch %d", oldest, head, other.Epoch())
	}
}

func testCatchUp(t *testing.T, w *world) {
	a, b := w.pair()
	var seen witness
	la := openLog(t, a, "log", store.LogOptions{})
	lb := openLog(t, b, "log", seen.options()) // last, because its options apply if there is one process
	for n := range 5 {
		p := group(t, la, engine.Append{Entry: entry("x")})[0].Position
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
		if got := len(seen.all()); got < n+1 {
			t.Fatalf("after CatchUp(%d) Appended has got %d entries", p, got)
		}
		if _, head := bounds(t, lb); head < p {
			t.Fatalf("after CatchUp(%d) the head is %d", p, head)
		}
	}
	for _, forged := range []store.Position{6, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
		if head, err := lb.CatchUp(t.Context(), forged); head != 5 || err != nil {
			t.Errorf("CatchUp(%d) = %d, %v", forged, head, err)
		}
	}
	if head, err := lb.CatchUp(t.Context(), 0); head != 5 || err != nil {
		t.Errorf("CatchUp(0) = %d, %v", head, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := lb.CatchUp(ctx, 99)
	is(t, "cancelled", err, context.Canceled)
}

func testOnceProcesses(t *testing.T, w *world) {
	a, b := w.pair()
	logs := []engine.Log{openLog(t, a, "log", store.LogOptions{}), openLog(t, b, "log", store.LogOptions{})}
	for round := range 10 {
		var fresh atomic.Int32
		var wg sync.WaitGroup
		e := entry(fmt.Sprint("id", round))
		for _, l := range logs {
			for range 3 {
				wg.Go(func() {
					done, err := l.Append(context.Background(), engine.Append{Entry: e, Once: true})
					if err != nil || done[0].Err != nil || done[0].Position != store.Position(round+1) {
						t.Errorf("round %d: %+v, %v", round, done, err)
						return
					}
					if done[0].Fresh {
						fresh.Add(1)
					}
				})
			}
		}
		wg.Wait()
		if fresh.Load() != 1 {
			t.Fatalf("%s was appended %d times", e.EventID, fresh.Load())
		}
	}
	reused := group(t, logs[1], engine.Append{Entry: with(entry("id0"), `{}`), Once: true})[0]
	if reused.Fresh || reused.Position != 1 || !errors.Is(reused.Err, events.ErrIDReused) {
		t.Errorf("an id with other data: %+v", reused)
	}
	if above := group(t, logs[1], engine.Append{Entry: entry("id0"), Once: true, Above: 1})[0]; !above.Fresh || above.Position != 11 {
		t.Errorf("above the earlier one: %+v", above)
	}
}

func testProofProcesses(t *testing.T, w *world) {
	a, b := w.pair()
	la := openLog(t, a, "log", store.LogOptions{})
	for i := range 20 {
		appendAll(t, la, fmt.Sprint("e", i))
	}
	want := map[store.Position]uint32{}
	for _, e := range read(t, la, 0, 20).Entries {
		want[e.Position] = e.Proof()
	}
	lb := openLog(t, b, "log", store.LogOptions{})
	var wg sync.WaitGroup
	for p := range store.Position(20) {
		wg.Go(func() {
			if got, err := lb.Proof(t.Context(), p+1); got != want[p+1] || err != nil {
				t.Errorf("Proof(%d) = %d, %v; want %d", p+1, got, err, want[p+1])
			}
		})
	}
	wg.Wait()
	lb = openLog(t, b, "log", store.LogOptions{MaxCount: 10})
	eventually(t, "retention deletes", func() bool {
		oldest, _ := bounds(t, lb)
		return oldest == 11
	})
	for p, proven := range map[store.Position]uint32{0: 0, 9: 0, 10: want[10], 11: want[11], 20: want[20], 21: 0, 1<<64 - 1: 0} {
		if got := proof(t, lb, p); got != proven {
			t.Errorf("after eviction Proof(%d) = %d, want %d", p, got, proven)
		}
	}
}

func testRetention(t *testing.T, w *world) {
	a, b := w.pair()
	la := openLog(t, a, "log", store.LogOptions{})
	for i := range 30 {
		appendAll(t, la, fmt.Sprint("e", i+1))
	}
	lb := openLog(t, b, "log", store.LogOptions{MaxCount: 10})
	eventually(t, "the other process follows", func() bool {
		oldest, _ := bounds(t, la)
		return oldest == 21
	})
	if batch := read(t, la, 5, 100); !batch.Gap || len(batch.Entries) != 10 || batch.Entries[0].Position != 21 {
		t.Errorf("gap %v, entries %v", batch.Gap, idsOf(batch.Entries))
	}
	if d := group(t, lb, engine.Append{Entry: entry("e25"), Once: true})[0]; d.Fresh || d.Position != 25 {
		t.Errorf("a retained id: %+v", d)
	}
	if d := group(t, la, engine.Append{Entry: entry("e5"), Once: true})[0]; !d.Fresh || d.Position != 31 {
		t.Errorf("an id that is no longer retained: %+v", d)
	}
	if oldest, head := bounds(t, openLog(t, a, "another", store.LogOptions{})); oldest != 1 || head != 0 {
		t.Errorf("another log has the bounds %d, %d", oldest, head)
	}
}

func testClosedLog(t *testing.T, w *world) {
	a, b := w.pair()
	lb := openLog(t, b, "log", store.LogOptions{})
	var seen witness
	la := openLog(t, a, "log", seen.options())
	appendAll(t, la, "1")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err := la.Append(ctx, engine.Append{Entry: entry("late")})
	is(t, "Append", err, store.ErrClosed)
	_, err = la.Read(ctx, 0, 1)
	is(t, "Read", err, store.ErrClosed)
	_, err = la.CatchUp(ctx, 5)
	is(t, "CatchUp", err, store.ErrClosed)
	_, err = la.Proof(ctx, 1)
	is(t, "Proof", err, store.ErrClosed)
	_, err = a.OpenLog(ctx, "log", store.LogOptions{})
	is(t, "OpenLog", err, store.ErrClosed)
	if a != b {
		appendAll(t, lb, "2", "3")
		if got := contents(t, lb); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("another process has %v", got)
		}
		if got := seen.ids(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the closed process got %v", got)
		}
	}
}
