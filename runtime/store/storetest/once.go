package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// onceTests contains the tests of AppendOnce (OCC-5).
var onceTests = []logTest{
	{"OCC-5: an id is appended once, whatever the order of its targets", testOnce},
	{"OCC-5: of concurrent calls with one id one appends", testOnceConcurrent},
	{"OCC-5: evicted entries and those up to a position do not count", testOnceRetained},
	{"OCC-5: entries of Append count, also several under one id", testOnceAfterAppend},
	{"OCC-5: AppendOnce agrees with a model: random ids, targets, data, bounds and evictions", testOnceModel},
	{"OCC-5: a repeated AppendOnce does not call Appended", testOnceTells},
	{"OCC-5: a cancelled or closed AppendOnce does nothing", testOnceCancelled},
}

func to(e store.Entry, targets ...string) store.Entry {
	e.Targets = append([]string{}, targets...)
	return e
}

func testOnce(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	e := check.With(check.Entry("x"), `{"a":1,"b":[{"c":null}]}`)
	check.Once(t, l, e, 0, 1, true)
	again := e
	again.Timestamp, again.Meta = events.NewTime(time.Unix(1, 0)), json.RawMessage(`{"k":1}`)
	check.Once(t, l, again, 0, 1, false) // only data is compared
	check.Once(t, l, check.With(e, `{"b":[{"c":null}],"a":1}`), 0, 1, false)
	for _, other := range []string{`{"a":2,"b":[{"c":null}]}`, `{"a":1.0,"b":[{"c":null}]}`, `{"a":1}`, `{}`} {
		check.Reused(t, l, check.With(e, other), 0, 1)
	}
	check.Once(t, l, to(e), 0, 2, true) // for no subscription
	check.Once(t, l, to(e, "s", "t"), 0, 3, true)
	check.Once(t, l, to(e, "t", "s", "t"), 0, 3, false)
	check.Once(t, l, to(e, "t"), 0, 4, true)
	check.Once(t, l, to(e, "s,t"), 0, 5, true)
	check.Once(t, l, to(e, `s","t`), 0, 6, true)
	check.Reused(t, l, check.With(to(e, "t", "s"), `{}`), 0, 3)
	check.Once(t, l, to(e), 0, 2, false)
	check.Once(t, l, e, 0, 1, false)
	check.Once(t, l, check.Entry("X"), 0, 7, true) // ids are compared by their bytes
	check.Once(t, l, check.Entry("x "), 0, 8, true)
	big := check.With(check.Entry("big"), `{"n":12345678901234567890}`)
	check.Once(t, l, big, 0, 9, true)
	check.Reused(t, l, check.With(big, `{"n":12345678901234567891}`), 0, 9)
	if b := check.Read(t, l, 0, 100); b.Head != 9 || len(b.Entries) != 9 || string(b.Entries[0].Data) != string(e.Data) || b.Entries[0].Meta != nil {
		t.Fatalf("the log holds %d entries, the first %+v", len(b.Entries), b.Entries[0])
	}
	check.Once(t, check.OpenLog(t, s, "b", store.LogOptions{}), e, 0, 1, true) // another log
	check.Once(t, check.OpenLog(t, s, "a", store.LogOptions{}), e, 0, 1, false)
}

func testOnceConcurrent(t *testing.T, s store.Store) {
	const callers, ids = 8, 25
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	var mu sync.Mutex
	fresh, at := map[string]int{}, map[string]store.Position{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range ids {
				id := fmt.Sprint("id", i)
				if i%3 == 0 {
					if _, err := l.Append(context.Background(), check.Entry(fmt.Sprint("other", c, i))); err != nil {
						t.Error(err)
					}
				}
				p, f, err := l.AppendOnce(context.Background(), check.Entry(id), 0)
				if err != nil {
					t.Errorf("AppendOnce: %v", err)
				}
				mu.Lock()
				if f {
					fresh[id]++
				}
				if q, ok := at[id]; ok && q != p {
					t.Errorf("%s has positions %d and %d", id, q, p)
				}
				at[id] = p
				mu.Unlock()
				if b, err := l.Read(context.Background(), p-1, 1); err != nil || len(b.Entries) != 1 || b.Entries[0].EventID != id {
					t.Errorf("position %d of %s has %+v, %v", p, id, b.Entries, err)
				}
			}
		})
	}
	wg.Wait()
	counts := map[string]int{}
	for _, e := range check.Read(t, l, 0, callers*ids*2).Entries {
		counts[e.EventID]++
	}
	for i := range ids {
		if id := fmt.Sprint("id", i); counts[id] != 1 || fresh[id] != 1 {
			t.Errorf("%s exists %d times and was fresh %d times", id, counts[id], fresh[id])
		}
	}
}

func testOnceRetained(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{MaxCount: 3})
	for p, id := range []string{"a", "b", "c"} {
		check.Once(t, l, check.Entry(id), 0, store.Position(p+1), true)
	}
	check.Once(t, l, check.Entry("a"), 0, 1, false)
	check.Reused(t, l, check.With(check.Entry("a"), `{}`), 0, 1)
	check.Once(t, l, check.Entry("d"), 0, 4, true) // evicts a
	check.Once(t, l, check.With(check.Entry("a"), `{}`), 0, 5, true)
	check.Once(t, l, check.Entry("c"), 2, 3, false)
	check.Once(t, l, check.Entry("c"), 3, 6, true)                         // the entry at 3 is excluded by above
	check.Once(t, l, check.With(check.Entry("c"), `{}`), 6, 7, true)       // and so is the entry at the head
	check.Once(t, l, check.With(check.Entry("c"), `{}`), 1<<63+5, 8, true) // above is beyond the head
	check.Once(t, l, check.With(check.Entry("c"), `{}`), 0, 8, false)
}

// testOnceAge tests AppendOnce with MaxAge. It can run in a synctest bubble.
func testOnceAge(t *testing.T, s store.Store, c clock) {
	l := check.OpenLog(t, s, "a", store.LogOptions{MaxAge: time.Minute})
	check.Once(t, l, check.Entry("x"), 0, 1, true)
	c.pass(30*time.Second - c.slack)
	check.Once(t, l, check.Entry("y"), 0, 2, true)
	check.Once(t, l, check.Entry("x"), 0, 1, false) // does not extend its age
	c.pass(30 * time.Second)
	check.Once(t, l, check.Entry("x"), 0, 1, false)
	c.pass(time.Nanosecond + c.slack)
	check.Once(t, l, check.With(check.Entry("x"), `{}`), 0, 3, true)
	check.Once(t, l, check.Entry("y"), 0, 2, false)
	c.pass(time.Hour)
	check.Once(t, l, check.Entry("y"), 0, 4, true)
	check.Once(t, l, check.Entry("y"), 0, 4, false)
}

func testOnceAfterAppend(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	data := []string{`{"n":1}`, `{"n":1}`, `{"n":2}`}
	for _, d := range data {
		if _, err := l.Append(t.Context(), check.With(check.Entry("x"), d)); err != nil {
			t.Fatal(err)
		}
	}
	check.Once(t, l, check.With(check.Entry("x"), `{"n":2}`), 0, 3, false)
	check.Reused(t, l, check.With(check.Entry("x"), `{"n":1}`), 0, 3)
	check.Add(t, l, 1)
	check.Once(t, l, check.Entry("e4"), 0, 4, false)
	if p, err := l.Append(t.Context(), check.Entry("e4")); p != 5 || err != nil {
		t.Fatalf("Append of an existing id = %d, %v", p, err)
	}
	check.Once(t, l, check.Entry("e4"), 0, 5, false)
}

func testOnceTells(t *testing.T, s store.Store) {
	var told []store.Position
	l := check.OpenLog(t, s, "a", store.LogOptions{Appended: func(es []store.Entry) {
		for _, e := range es {
			told = append(told, e.Position)
		}
	}})
	check.Once(t, l, check.Entry("x"), 0, 1, true)
	check.Once(t, l, check.Entry("x"), 0, 1, false)
	check.Reused(t, l, check.With(check.Entry("x"), `{}`), 0, 1)
	check.Once(t, l, check.Entry("y"), 0, 2, true)
	if !slices.Equal(told, []store.Position{1, 2}) {
		t.Fatalf("told %v", told)
	}
}

func testOnceCancelled(t *testing.T, s store.Store) {
	l := check.OpenLog(t, s, "a", store.LogOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, fresh, err := l.AppendOnce(ctx, check.Entry("x"), 0); !errors.Is(err, context.Canceled) || fresh {
		t.Fatalf("cancelled: %v, %v", fresh, err)
	}
	check.Once(t, l, check.Entry("x"), 0, 1, true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := l.AppendOnce(t.Context(), check.Entry("x"), 0); !errors.Is(err, store.ErrClosed) || fresh {
		t.Fatalf("closed: %v, %v", fresh, err)
	}
}

// testOnceModel compares AppendOnce with a linear search from the end of a list.
func testOnceModel(t *testing.T, s store.Store) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	audiences := [][]string{nil, nil, nil, {}, {"s"}, {"t"}, {"s", "t"}, {"t", "s"}}
	for run := range 4 {
		limit := []int{0, 1, 7, 50}[run]
		l := check.OpenLog(t, s, fmt.Sprint("model", run), store.LogOptions{MaxCount: limit})
		var model []store.Entry
		for i := range 250 {
			e := check.Entry(fmt.Sprint(r.IntN(20)))
			e.Data = json.RawMessage(fmt.Sprintf(`{"n":%d}`, r.IntN(2)))
			e.Targets = audiences[r.IntN(len(audiences))]
			head := store.Position(len(model))
			oldest := store.Position(1)
			if limit > 0 && len(model) > limit {
				oldest = head - store.Position(limit) + 1
			}
			if r.IntN(5) == 0 {
				p, err := l.Append(t.Context(), e)
				if err != nil || p != head+1 {
					t.Fatalf("seed %d, step %d: Append = %d, %v", seed, i, p, err)
				}
				model = append(model, e)
				continue
			}
			var above store.Position
			if r.IntN(2) == 0 {
				above = store.Position(r.IntN(len(model) + 2))
			}
			want, wantFresh, wantErr := head+1, true, false
			for p := head; p >= oldest && p > above; p-- {
				o := model[p-1]
				if o.EventID == e.EventID && store.Audience(o.Targets) == store.Audience(e.Targets) {
					want, wantFresh, wantErr = p, false, string(o.Data) != string(e.Data)
					break
				}
			}
			p, fresh, err := l.AppendOnce(t.Context(), e, above)
			if p != want || fresh != wantFresh || errors.Is(err, events.ErrIDReused) != wantErr || err != nil && !wantErr {
				t.Fatalf("seed %d, step %d: AppendOnce = %d, %v, %v; want %d, %v, refused %v", seed, i, p, fresh, err, want, wantFresh, wantErr)
			}
			if fresh {
				model = append(model, e)
			}
		}
		if _, head := check.Bounds(t, l); int(head) != len(model) {
			t.Fatalf("seed %d: head %d, want %d", seed, head, len(model))
		}
	}
}
