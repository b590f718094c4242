package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) store.Store { return memory.New() })
}

func TestMemoryIsNotDurable(t *testing.T) {
	if memory.New().Durable() {
		t.Fatal("memory says that it is durable")
	}
}

func ExampleNew() {
	ctx := context.Background()
	s := memory.New()
	log, _ := s.OpenLog(ctx, "incident.created", store.LogOptions{MaxCount: 1000})
	log.Append(ctx, store.Entry{EventID: "evt_1", Timestamp: events.NewTime(time.Unix(0, 0)), Data: json.RawMessage(`{}`)})
	batch, _ := log.Read(ctx, 0, 10)
	fmt.Println(batch.Entries[0].EventID, batch.Head)
	// Output: evt_1 1
}

func BenchmarkAppend(b *testing.B) {
	l := memory.NewLog(store.LogOptions{MaxCount: 10_000, MaxAge: time.Hour})
	e := store.Entry{EventID: "evt", Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}
	b.ReportAllocs()
	for b.Loop() {
		l.Append(context.Background(), e)
	}
}

// Trap 2: Appended is called inside the step that makes an entry visible: in order of positions, one call at a time,
// and before anyone can read past it. The trap concerns Log.Append and AppendOnce, which hold the lock during the
// call.
func TestAppendedIsWithinAppend(t *testing.T) {
	const writers, each = 8, 100
	var l *memory.Log
	var told []store.Position // unguarded: the log's lock must suffice
	early := make(chan store.Position, 1)
	l = memory.NewLog(store.LogOptions{Appended: func(entries []store.Entry) {
		if len(told) == 0 {
			go func() { _, head, _ := l.Bounds(context.Background()); early <- head }()
			for range 100 { // a reader that could get in would
				time.Sleep(100 * time.Microsecond)
				if len(early) > 0 {
					t.Error("a reader got in while the append was being told")
				}
			}
		}
		for i := range entries {
			told = append(told, entries[i].Position)
		}
		runtime.Gosched()
	}})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				e := store.Entry{EventID: fmt.Sprintf("%d-%d", w, i), Timestamp: events.NewTime(time.Unix(0, 0)), Data: json.RawMessage(`{}`)}
				var err error
				if i%2 == 0 {
					_, err = l.Append(context.Background(), e)
				} else {
					_, _, err = l.AppendOnce(context.Background(), e, 0)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	<-early
	if len(told) != writers*each {
		t.Fatalf("%d positions", len(told))
	}
	for i, p := range told {
		if p != store.Position(i+1) {
			t.Fatalf("position %d was told after %d others", p, i)
		}
	}
}
