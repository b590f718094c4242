package memory

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// OCC-5: the index of ids finds all retained entries and keeps few others, over many evictions.
func TestIndexBounded(t *testing.T) {
	const count = 2000
	l := NewLog(store.LogOptions{MaxCount: count})
	id := func(i int) string { return "n" + strconv.Itoa(i) }
	data := json.RawMessage(`{}`)
	for i := 1; i <= 30_000; i++ {
		p, fresh, err := l.AppendOnce(t.Context(), store.Entry{EventID: id(i), Data: data}, 0)
		if err != nil || !fresh || int(p) != i {
			t.Fatalf("append %d: %d, %v, %v", i, p, fresh, err)
		}
		for _, back := range []int{1, 700, count - 1} {
			if i <= back {
				continue
			}
			if p, fresh, err := l.AppendOnce(t.Context(), store.Entry{EventID: id(i - back), Data: data}, 0); err != nil || fresh || int(p) != i-back {
				t.Fatalf("at %d, %d back: %d, %v, %v", i, back, p, fresh, err)
			}
		}
		if n := len(l.ids.young) + len(l.ids.old); n > 2*count+2 {
			t.Fatalf("after %d appends the index has %d ids", i, n)
		}
	}
}

// OCC-5: logs without an author's ids have no index, and an expired log keeps none.
func TestIndexOnlyWhereNeeded(t *testing.T) {
	l := NewLog(store.LogOptions{MaxAge: time.Nanosecond})
	l.Append(t.Context(), store.Entry{EventID: "a"})
	if l.ids != nil {
		t.Fatal("an index without need")
	}
	l.AppendOnce(t.Context(), store.Entry{EventID: "a"}, 0)
	time.Sleep(time.Millisecond) // longer than MaxAge, by the clock of the machine
	l.Bounds(t.Context())
	if l.ids.young != nil || l.ids.old != nil {
		t.Fatal("an empty log keeps ids")
	}
}

func BenchmarkAppendOnce(b *testing.B) {
	l := NewLog(store.LogOptions{MaxCount: 10_000, MaxAge: time.Hour})
	e := store.Entry{Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e.EventID = strconv.Itoa(i)
		if _, fresh, err := l.AppendOnce(context.Background(), e, 0); !fresh {
			b.Fatal(err)
		}
	}
}
