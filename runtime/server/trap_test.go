package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// Trap 2: concurrent emitters and a poller: the poller sees every event once, each emitter's in
// order, and no cursor skips one. The trap is carried by Topic.handleAppended, which moves the head under the lock of
// the append, and by what the log does (TestAppendedIsWithinAppend in package memory, storetest).
func TestConcurrentEmitters(t *testing.T) {
	s := newServer(t, Options{})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	c := pollFrom(t, s, nil, "").Cursor
	const emitters, each = 6, 60
	l := stream(t, s, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
	var wg sync.WaitGroup
	for w := range emitters {
		wg.Go(func() {
			for i := range each {
				emit(t, e, incident{ID: fmt.Sprintf("%d-%03d", w, i)})
			}
		})
	}
	var polled []string
	for len(polled) < emitters*each {
		r := pollFrom(t, s, c, `,"timeoutMs":2000`)
		if len(r.Events) == 0 {
			t.Fatalf("stuck after %d", len(polled))
		}
		polled, c = append(polled, r.ids()...), r.Cursor
	}
	wg.Wait()
	waitFor(t, func() bool { return len(l.ids()) == emitters*each })
	for what, ids := range map[string][]string{"poll": polled, "stream": l.ids()} {
		last := map[string]string{}
		for _, id := range ids {
			w, _, _ := strings.Cut(id, "-")
			if id <= last[w] {
				t.Fatalf("%s: %s after %s", what, id, last[w])
			}
			last[w] = id
		}
	}
}

// Traps 1 (for streams) and 4, PUSH-4, CUR-4: whatever frame a client has seen last, its cursor resumes with exactly
// what was not written yet.
func TestResumeFromAnyFrame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(rt, "events")
		severities := rapid.SliceOfN(rapid.SampledFrom([]string{"P1", "P2"}), n, n).Draw(rt, "severities")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 4000), n, n).Draw(rt, "pauses")
		stalls := rapid.SliceOfN(rapid.IntRange(0, 9000), 64, 64).Draw(rt, "stalls")
		var failed string
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{Heartbeat: 5 * time.Second})
			e := register(t, s, "e", Hooks[filterArgs, incident]{})
			st, rerr := openStream(s, "", `{"name":"e","arguments":{"severity":"P1"}}`)
			if rerr != nil {
				t.Fatal(rerr)
			}
			ctx, cancel := context.WithCancel(context.Background())
			rec := &recorder{id: "8", gate: func(i int, _ []frame.Frame) error {
				time.Sleep(time.Duration(stalls[i%len(stalls)]) * time.Millisecond) // a slow reader
				return nil
			}}
			done := make(chan struct{})
			go func() { defer close(done); st.Run(ctx, rec) }()
			var want []string
			for i := range n {
				time.Sleep(time.Duration(pauses[i]) * time.Millisecond)
				id := fmt.Sprint("x", i)
				emit(t, e, incident{ID: id, Severity: severities[i]})
				if severities[i] == "P1" {
					want = append(want, id)
				}
			}
			time.Sleep(2 * time.Minute)
			cancel()
			<-done
			if got := rec.ids(); !slices.Equal(got, want) {
				failed = fmt.Sprintf("got %v, want %v", got, want)
			}
			seen := 0
			for i, f := range rec.frames() {
				if f.method == wire.NotificationEvent {
					seen++
				}
				rest := pollFrom(t, s, f.params.Cursor, `,"arguments":{"severity":"P1"}`)
				if got := rest.ids(); !slices.Equal(got, append([]string{}, want[seen:]...)) || *rest.Truncated {
					failed = fmt.Sprintf("after frame %d (%s) %v follow, want %v", i, f.short(), got, want[seen:])
				}
			}
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}

// Trap 5, CUR-1, CUR-7, CUR-8: old, foreign, random and future cursors, and those of other entries: a fresh cursor,
// truncated, and never an error or a wait for ever. The trap is carried by resolveCursor, case by case, and by
// memory.NewLog, whose epoch is random.
func TestStrangeCursors(t *testing.T) {
	newLog := func() (*Server, *Emitter[incident]) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxCount: 5}))
		register(t, s, "other", Hooks[filterArgs, incident]{})
		return s, e
	}
	before, old := newLog()
	evicted := pollFrom(t, before, nil, "").Cursor
	for i := range 20 {
		emit(t, old, incident{ID: fmt.Sprint("old", i)})
	}
	earlier := pollFrom(t, before, nil, "").Cursor
	foreign := poll(t, before, `{"name":"other"}`).Cursor
	s, e := newLog()
	var given []string
	for i := range 8 {
		emit(t, e, incident{ID: fmt.Sprint("x", i)})
		given = append(given, *pollFrom(t, s, nil, "").Cursor)
	}
	head := pollFrom(t, s, nil, "").Cursor
	now, err := wire.ParseCursor(*head)
	if err != nil {
		t.Fatal(err)
	}
	at := func(epoch, pos uint64) string {
		c := now
		c.Epoch, c.Position, c.Proof = epoch, pos, 0 // as they are given out while the store does not answer
		return c.String()
	}
	proven := func(pos uint64, change uint32) string {
		c, err := wire.ParseCursor(given[pos-1])
		if err != nil || c.Position != pos || c.Proof == 0 {
			t.Fatalf("the cursor after %d is %+v, %v", pos, c, err)
		}
		c.Proof ^= change
		return c.String()
	}
	retained := []string{"x3", "x4", "x5", "x6", "x7"}
	for _, tc := range []struct {
		name, cursor string
		truncated    bool
		want         []string
	}{
		{"the head", *head, false, nil},
		{"in the log", at(now.Epoch, 6), false, retained[3:]},
		{"just before the oldest", at(now.Epoch, 3), false, retained},
		{"evicted", at(now.Epoch, 2), true, retained},
		{"before all", at(now.Epoch, 0), true, retained},
		{"an earlier life", *earlier, true, retained},
		{"the beginning of an earlier life", *evicted, true, retained},
		{"ahead of the head", at(now.Epoch, 9), true, retained},
		{"proven in the log", proven(6, 0), false, retained[3:]},
		{"proven, the last evicted", proven(3, 0), false, retained},
		{"in the log, of another entry", proven(6, 2), true, retained},
		{"the last evicted, of another entry", proven(3, 2), true, retained},
		{"the head, of another entry", proven(8, 2), true, retained},
		{"far ahead", at(now.Epoch, 1<<63), true, nil},
		{"another type", *foreign, true, nil},
		{"empty", "", true, nil},
		{"random", "AQEBAQEBAQ", true, nil},
		{"no base64", "%%%", true, nil},
		{"of a list", wire.Cursor{Kind: wire.ListCursor, Name: now.Name, Position: 1}.String(), true, nil},
	} {
		r := pollFrom(t, s, &tc.cursor, "")
		if !equalStrings(r.ids(), tc.want) || *r.Truncated != tc.truncated || *r.Cursor != *head {
			t.Errorf("poll from %s: %v, truncated %v, cursor %v", tc.name, r.ids(), *r.Truncated, *r.Cursor == *head)
		}
		l := stream(t, s, fmt.Sprintf(`{"name":"e","cursor":%q}`, tc.cursor))
		waitFor(t, func() bool { return len(l.frames()) > len(tc.want) })
		if f := l.frames()[0]; !equalStrings(l.ids(), tc.want) || f.params.Truncated != tc.truncated {
			t.Errorf("stream from %s: %v, %s", tc.name, l.ids(), f.raw)
		}
	}
}

// CUR-5, CUR-6: maxAgeMs and the ceiling move the start and only then say truncated.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		ceiling := register(t, s, "c", Hooks[filterArgs, incident]{}, WithReplayCeiling(150*time.Second))
		c, cc := pollFrom(t, s, nil, "").Cursor, poll(t, s, `{"name":"c"}`).Cursor
		for i := range 5 {
			emit(t, e, incident{ID: fmt.Sprint("x", i)})
			emit(t, ceiling, incident{ID: fmt.Sprint("x", i)})
			time.Sleep(time.Minute)
		}
		for _, tc := range []struct {
			name, more string
			truncated  bool
			want       int
		}{
			{"e", "", false, 5}, {"e", `,"maxAgeMs":300000`, false, 5}, {"e", `,"maxAgeMs":299999`, true, 4},
			{"e", `,"maxAgeMs":60000`, true, 1}, {"e", `,"maxAgeMs":0`, true, 0}, {"e", `,"maxAgeMs":9e99`, false, 5},
			{"c", "", true, 2}, {"c", `,"maxAgeMs":999999`, true, 2}, {"c", `,"maxAgeMs":60000`, true, 1},
		} {
			from := c
			if tc.name == "c" {
				from = cc
			}
			r := poll(t, s, fmt.Sprintf(`{"name":%q,"cursor":%q%s}`, tc.name, *from, tc.more))
			if len(r.Events) != tc.want || *r.Truncated != tc.truncated {
				t.Errorf("%s%s: %v, truncated %v", tc.name, tc.more, r.ids(), *r.Truncated)
			}
			if again := poll(t, s, fmt.Sprintf(`{"name":%q,"cursor":%q%s}`, tc.name, *r.Cursor, tc.more)); *again.Truncated {
				t.Errorf("%s%s: truncated again", tc.name, tc.more)
			}
		}
		if r := pollFrom(t, s, nil, `,"maxAgeMs":1000000`); len(r.Events) != 0 || *r.Truncated {
			t.Error("maxAgeMs counts with a null cursor")
		}
	})
}

// countingStore counts what readers read.
type countingStore struct {
	store.Store
	reads, entries atomic.Int64
}

type countingLog struct {
	store.EventLog
	s *countingStore
}

func (c *countingStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := c.Store.OpenLog(ctx, name, o)
	return countingLog{l, c}, err
}

func (l countingLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	b, err := l.EventLog.Read(ctx, after, limit)
	l.s.reads.Add(1)
	l.s.entries.Add(int64(len(b.Entries)))
	return b, err
}

// Trap 15: a parked reader never gaps, however much is evicted past it, and reads only what the
// index did not rule out.
// topic.park, topic.handleAppended, topic.unpark and index.wakeMatching carry it.
func TestParkedReaders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		readers := rapid.SliceOfN(rapid.SampledFrom([]string{
			`{}`, `{"severity":"P1"}`, `{"severity":"P3"}`, `{"tag":"a"}`, `{"tag":"b","severity":"P1"}`, `{"tag":"c","severity":"P2","service":"web*"}`,
		}), 1, 6).Draw(rt, "readers")
		n := rapid.IntRange(1, 80).Draw(rt, "events")
		incidents := make([]incident, n)
		for i := range incidents {
			incidents[i] = incident{ID: fmt.Sprint("x", i), Severity: rapid.SampledFrom([]string{"", "P1", "P2", "P3"}).Draw(rt, "severity"),
				Service: rapid.SampledFrom([]string{"", "web1", "db"}).Draw(rt, "service"),
				Tags:    rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(rt, "tags")}
		}
		var failed string
		synctest.Test(t, func(t *testing.T) {
			count := &countingStore{Store: memory.New()}
			s := newServer(t, Options{Store: count})
			e := register(t, s, "e", Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxCount: 1}))
			var all []*live
			for _, a := range readers {
				all = append(all, stream(t, s, `{"name":"e","arguments":`+a+`}`))
			}
			synctest.Wait()
			count.entries.Store(0)
			want := make([][]string, len(readers))
			total := 0
			for _, i := range incidents {
				emit(t, e, i)
				synctest.Wait() // parked readers have what concerns them; the others stay parked
				for r, a := range readers {
					if oracle(a, i) {
						want[r] = append(want[r], i.ID)
						total++
					}
				}
			}
			if got := int(count.entries.Load()); got != total {
				failed = fmt.Sprintf("%d entries read for %d deliveries", got, total)
			}
			for r, l := range all {
				if got := l.ids(); !slices.Equal(got, append([]string{}, want[r]...)) {
					failed = fmt.Sprintf("%s got %v, want %v", readers[r], got, want[r])
				}
				for _, f := range l.frames() {
					if f.params.Truncated {
						failed = readers[r] + " gapped"
					}
				}
				l.cancel()
				<-l.done
			}
			if h := s.types["e"].topic.Holding(); h.Shapes != 0 || len(h.Readers) != 0 {
				failed = "the index keeps readers that are gone"
			}
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}

// oracle decides a match the slow way.
func oracle(args string, i incident) bool {
	var a struct{ Severity, Tag, Service *string }
	json.Unmarshal([]byte(args), &a)
	return (a.Severity == nil || *a.Severity == i.Severity) && (a.Tag == nil || slices.Contains(i.Tags, *a.Tag)) &&
		(a.Service == nil || strings.HasPrefix(i.Service, "web"))
}
