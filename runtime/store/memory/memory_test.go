package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
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

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(*testing.T) store.CursorStore { return memory.NewCursors() })
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
