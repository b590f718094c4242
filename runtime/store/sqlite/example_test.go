package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := sqlite.Open(ctx, filepath.Join(dir, "events.db"), sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	log, err := s.OpenLog(ctx, "incident.created", store.LogOptions{MaxAge: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	position, err := log.Append(ctx, store.Entry{EventID: "evt_1", Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"incidentId":"INC-1"}`)})
	fmt.Println(position, err)
	// Output: 1 <nil>
}
