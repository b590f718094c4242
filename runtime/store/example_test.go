package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A reader asks for what follows a position. When the log no longer has all of it, the batch says so
// and begins with the oldest entry that is left.
func ExampleEventLog() {
	ctx := context.Background()
	s := memory.New()
	defer s.Close()
	log, err := s.OpenLog(ctx, "incident.created", store.LogOptions{MaxCount: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := events.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
		position, err := log.Append(ctx, store.Entry{EventID: id, Timestamp: at, Data: json.RawMessage(`{}`)})
		fmt.Println(position, err)
	}
	for _, after := range []store.Position{2, 0} {
		batch, err := log.Read(ctx, after, 10)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print("after ", after, ", gap ", batch.Gap, ":")
		for _, e := range batch.Entries {
			fmt.Print(" ", e.EventID)
		}
		fmt.Println()
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
	// after 2, gap false: evt_3
	// after 0, gap true: evt_2 evt_3
}
