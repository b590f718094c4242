package topic

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A countedLog counts the entries that are read of it.
type countedLog struct {
	store.EventLog
	read int
}

func (l *countedLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	b, err := l.EventLog.Read(ctx, after, limit)
	l.read += len(b.Entries)
	return b, err
}

// keeping opens a topic whose log keeps what k says.
func keeping(t testing.TB, typ *Type, k Kept) (*Topic, *countedLog) {
	t.Helper()
	var log *countedLog
	topic, err := Open(typ, Options{Slots: 64, Kept: k, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		log = &countedLog{EventLog: memory.NewLog(store.LogOptions{MaxAge: k.MaxAge, MaxCount: k.MaxCount, Appended: appended})}
		return log, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return topic, log
}

func addAt(t testing.TB, topic *Topic, at time.Time) {
	t.Helper()
	id := fmt.Sprint(topic.Head() + 1)
	if _, err := topic.Append(t.Context(), store.Entry{EventID: id, Timestamp: events.NewTime(at), Data: []byte(`{}`)}, true); err != nil {
		t.Fatal(err)
	}
}

// COAL-3: a wait that begins in the past begins at the first entry since then, wherever in the log that is, and looks
// at few entries for it.
func TestStartSince(t *testing.T) {
	typ := newType(t)
	topic, log := keeping(t, typ, Kept{MaxCount: math.MaxInt})
	began := time.Now().Add(-time.Hour)
	const all = 10_000
	for i := range store.Position(all) {
		addAt(t, topic, began.Add(time.Duration(i)*100*time.Millisecond))
	}
	for _, want := range []store.Position{0, 1, 2, 63, 64, 257, 4000, all / 2, all - 300, all - 1, all} {
		log.read = 0
		limit := began.Add(time.Duration(want) * 100 * time.Millisecond) // the entry after want is of that time
		st, err := topic.Start(t.Context(), typ, all, Replay{Since: &Since{At: limit}})
		if err != nil || st.Position != want || st.Truncated {
			t.Errorf("since entry %d: begins after %d, truncated %v, %v", want+1, st.Position, st.Truncated, err)
		}
		if log.read > 600 {
			t.Errorf("since entry %d: %d entries were read of %d", want+1, log.read, all)
		}
	}
}

// COAL-3: timestamps are the author's. Some that are out of order cost none of the entries that are wanted.
func TestStartSinceOutOfOrder(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		typ := newType(t)
		topic, _ := keeping(t, typ, Kept{MaxCount: math.MaxInt})
		began := time.Now().Add(-time.Hour)
		times := make([]time.Time, 3000)
		for i := range times { // each is up to 100 entries late
			times[i] = began.Add(time.Duration(i-rnd.IntN(100)) * time.Second)
			addAt(t, topic, times[i])
		}
		limit := began.Add(time.Duration(rnd.IntN(len(times))) * time.Second)
		st, err := topic.Start(t.Context(), typ, topic.Head(), Replay{Since: &Since{At: limit}})
		if err != nil || st.Truncated {
			t.Fatal(err, st)
		}
		for i := range st.Position {
			if !times[i].Before(limit) {
				t.Fatalf("seed %d: begins after %d, and entry %d is since then", seed, st.Position, i+1)
			}
		}
		if int(st.Position) < len(times) && times[st.Position].Before(limit) {
			t.Errorf("seed %d: the first entry, %d, is too old", seed, st.Position+1)
		}
	}
}

// COAL-3: what may be missing since then is told, and nothing else: what was evicted for its age before that is not
// missing.
func TestStartSinceTruncated(t *testing.T) {
	type step struct {
		emits int
		after time.Duration
	}
	for _, c := range []struct {
		what    string
		kept    Kept
		ceiling time.Duration
		steps   []step
		reset   bool
		since   time.Duration
		want    store.Position
		lost    bool
	}{
		{"empty", Kept{MaxCount: 10}, 0, nil, false, time.Hour, 0, false},
		{"everything is there", Kept{MaxCount: 10}, 0, []step{{3, time.Minute}}, false, time.Hour, 0, false},
		{"it began since", Kept{MaxCount: 10, Volatile: true}, 0, []step{{3, time.Minute}}, false, time.Hour, 0, true},
		{"it began before", Kept{MaxCount: 10, Volatile: true}, 0, []step{{3, 2 * time.Hour}}, false, time.Hour, 3, false},
		{"evicted for their count", Kept{MaxCount: 2}, 0, []step{{3, time.Minute}}, false, time.Hour, 1, true},
		{"what is left is enough", Kept{MaxCount: 2}, 0, []step{{3, time.Hour}, {1, time.Minute}}, false, 10 * time.Minute, 3, false},
		{"evicted for their age", Kept{MaxCount: 10, MaxAge: time.Hour}, 0, []step{{3, 2 * time.Hour}, {1, time.Minute}}, false, 10 * time.Minute, 3, false},
		{"all evicted for their age", Kept{MaxCount: 10, MaxAge: time.Hour}, 0, []step{{3, 2 * time.Hour}}, false, 10 * time.Minute, 3, false},
		{"beyond their age", Kept{MaxCount: 10, MaxAge: time.Hour}, 0, []step{{3, 90 * time.Minute}, {1, time.Minute}}, false, 2 * time.Hour, 3, true},
		{"either", Kept{MaxCount: 2, MaxAge: time.Hour}, 0, []step{{9, 2 * time.Hour}, {2, time.Minute}}, false, 10 * time.Minute, 9, true},
		{"another schema", Kept{MaxCount: 10}, 0, []step{{3, time.Minute}}, true, 10 * time.Minute, 3, true},
		{"the type's ceiling", Kept{MaxCount: 10}, 30 * time.Minute, []step{{2, time.Hour}, {1, time.Minute}}, false, 2 * time.Hour, 2, true},
		{"within the ceiling", Kept{MaxCount: 10}, 30 * time.Minute, []step{{2, time.Hour}, {1, time.Minute}}, false, 10 * time.Minute, 2, false},
		{"nothing beyond the ceiling", Kept{MaxCount: 10}, 30 * time.Minute, []step{{2, time.Minute}}, false, time.Hour, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			typ := newType(t)
			typ.ReplayCeiling = c.ceiling
			topic, _ := keeping(t, typ, c.kept)
			for _, s := range c.steps {
				for range s.emits {
					addAt(t, topic, time.Now())
				}
				time.Sleep(s.after)
			}
			if c.reset {
				topic.Redefine(typ, true)
			}
			st, err := topic.Start(t.Context(), typ, topic.Head(), Replay{Since: &Since{Age: c.since}})
			if err != nil || st.Position != c.want || st.Truncated != c.lost {
				t.Errorf("%s: begins after %d, truncated %v, %v; want %d, %v", c.what, st.Position, st.Truncated, err, c.want, c.lost)
			}
			typ.NoReplay = true
			if st, err := topic.Start(t.Context(), typ, topic.Head(), Replay{Since: &Since{Age: c.since}}); err != nil || st.Position != topic.Head() || !st.Truncated {
				t.Errorf("%s: without replay it begins after %d, truncated %v, %v", c.what, st.Position, st.Truncated, err)
			}
		})
	}
}
