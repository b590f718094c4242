package clientstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// A program lists the events that its handlers gave up on, and schedules one of them for a retry.
func ExampleDeadLetters() {
	ctx := context.Background()
	var letters clientstore.ConsumerStore = clientmemory.NewCursors()
	err := letters.PutDeadLetter(ctx, clientstore.DeadLetter{
		Key: "issues", Event: "issue.opened", EventID: "evt_1", Data: json.RawMessage(`{"number":1}`), Error: "database is down", Tries: 5,
	}, 1000)
	if err != nil {
		log.Fatal(err)
	}

	for d, err := range clientstore.DeadLetters(ctx, letters) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s after %d tries: %s\n", d.EventID, d.Tries, d.Error)
		found, err := letters.RetryDeadLetter(ctx, d.Sequence)
		fmt.Println("retry", found, err)
	}
	// Output:
	// evt_1 after 5 tries: database is down
	// retry true <nil>
}
