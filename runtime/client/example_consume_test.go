package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// A program handles events until it is told to end. What a handler gives up is kept as a dead letter.
func ExampleConsume() {
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	mine, emitter, end := serve(context.Background())
	defer end()
	c, err := client.Connect(ctx, mine, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	cursors := clientmemory.NewCursors() // sqlite.Open keeps positions and dead letters over restarts
	go func() {
		awaitSubscription(c)
		for i, title := range []string{"It is slow", "", "It is wrong"} {
			if err := emitter.Emit(ctx, Opened{Number: i + 1, Title: title}); err != nil {
				log.Fatal(err)
			}
		}
	}()
	err = client.Consume(ctx, c, client.ConsumeOptions{Store: cursors},
		client.Handle(issueOpened, nil, func(_ context.Context, ev *events.Event[json.RawMessage, Opened]) error {
			if ev.Data.Title == "" {
				return client.Discard(errors.New("no title"))
			}
			fmt.Println(ev.Data.Number, ev.Data.Title)
			if ev.Data.Number == 3 {
				stop()
			}
			return nil
		}))
	fmt.Println("ended:", err)
	for d, err := range clientstore.DeadLetters(context.Background(), cursors) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(d.Data), d.Error)
	}
	// Output:
	// 1 It is slow
	// 3 It is wrong
	// ended: <nil>
	// {"number":2,"title":""} discarded: no title
}

// awaitSubscription returns once the server has accepted a subscription: what happens from then on is received.
func awaitSubscription(c *client.Client) {
	for {
		for _, s := range c.Subscriptions() {
			if s.Cursor != "" {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}
