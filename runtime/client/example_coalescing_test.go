package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
)

// A handler is called once for several events about the same issue.
func ExampleWithCoalescing() {
	ctx, stop := context.WithCancel(context.Background())
	mine, emitter, end := serve(context.Background())
	defer end()
	c, err := client.Connect(ctx, mine, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	go func() {
		awaitSubscription(c)
		for _, title := range []string{"It is slow", "It is very slow", "It is wrong"} {
			if err := emitter.Emit(ctx, Opened{Number: 1, Title: title}); err != nil {
				log.Fatal(err)
			}
		}
	}()
	err = client.Consume(ctx, c, client.ConsumeOptions{Store: clientmemory.NewCursors()},
		client.Handle(issueOpened, nil, func(ctx context.Context, ev *events.Event[json.RawMessage, Opened]) error {
			fmt.Println(client.BurstOf(ctx, ev).Count, "events, the latest is", ev.Data.Title)
			stop()
			return nil
		}, client.WithCoalescing(client.Coalescing{Key: []string{"/number"}, Quiet: time.Second})))
	fmt.Println("ended:", err)
	// Output:
	// 3 events, the latest is It is wrong
	// ended: <nil>
}

// With manual acknowledgment, an event that was received but not acknowledged is delivered again.
func ExampleWithManualAck() {
	ctx := context.Background()
	mine, emitter, end := serve(ctx)
	defer end()
	c, err := client.Connect(ctx, mine, client.Options{Cursors: clientmemory.NewCursors()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	subscribe := func() *client.TypedSubscription[json.RawMessage, Opened] {
		sub, err := client.Subscribe(ctx, c, issueOpened, nil, client.WithCursorKey("issues"), client.WithManualAck())
		if err != nil {
			log.Fatal(err)
		}
		return sub
	}

	sub := subscribe()
	for i, title := range []string{"It is slow", "It is wrong"} {
		if err := emitter.Emit(ctx, Opened{Number: i + 1, Title: title}); err != nil {
			log.Fatal(err)
		}
	}
	for ev, err := range sub.Events() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("received", ev.Data.Number)
		if ev.Data.Number == 2 {
			break // before it is handled
		}
		if err := sub.Subscription().Ack(); err != nil {
			log.Fatal(err)
		}
	}
	sub.Close()

	sub = subscribe()
	defer sub.Close()
	for ev, err := range sub.Events() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("received", ev.Data.Number, "again")
		break
	}
	// Output:
	// received 1
	// received 2
	// received 2 again
}
