package clientmemory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Cursors keep the positions of a client's subscriptions. Pass them to client.Connect as Options.Cursors.
func ExampleNewCursors() {
	ctx := context.Background()
	cursors := clientmemory.NewCursors()
	if err := cursors.Save(ctx, "issues", clientstore.Saved{Cursor: "AQJr0w"}); err != nil {
		log.Fatal(err)
	}
	saved, found, err := cursors.Load(ctx, "issues")
	fmt.Println(saved.Cursor, found, err)
	// Output: AQJr0w true <nil>
}
