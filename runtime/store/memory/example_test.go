package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A log in memory drops its oldest entries when it exceeds MaxCount.
func ExampleNewLog() {
	ctx := context.Background()
	incidents := memory.NewLog(store.LogOptions{MaxCount: 2})
	for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
		if _, err := incidents.Append(ctx, store.Entry{EventID: id, Data: json.RawMessage(`{}`)}); err != nil {
			log.Fatal(err)
		}
	}
	oldest, head, err := incidents.Bounds(ctx)
	fmt.Println("entries", oldest, "to", head, err)
	// Output: entries 2 to 3 <nil>
}
