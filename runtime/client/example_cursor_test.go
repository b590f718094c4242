package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// With a cursor store a program goes on where the last run ended. What happened in between is
// delivered first.
func ExampleOptions_cursors() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	emitter, err := server.Register(es, issueOpened, server.Hooks[json.RawMessage, Opened]{})
	if err != nil {
		log.Fatal(err)
	}
	cursors := clientmemory.NewCursors() // file.OpenCursors keeps them over restarts
	emit := func(n int, title string) {
		if err := emitter.Emit(ctx, Opened{Number: n, Title: title}); err != nil {
			log.Fatal(err)
		}
	}

	run := func(meanwhile func()) {
		mine, theirs := mcp.NewInMemoryTransports()
		ended := make(chan error, 1)
		go func() { ended <- transport.Run(ctx, es, theirs) }()
		c, err := client.Connect(ctx, mine, client.Options{Cursors: cursors})
		if err != nil {
			log.Fatal(err)
		}
		sub, err := client.Subscribe(ctx, c, issueOpened, nil, client.WithCursorKey("issues"))
		if err != nil {
			log.Fatal(err)
		}
		meanwhile()
		for ev, err := range sub.Events() {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(ev.Data.Number, ev.Data.Title)
			break
		}
		if err := sub.Subscription().Ack(); err != nil { // the last item; the ones before it were committed on the way
			log.Fatal(err)
		}
		c.Close()
		<-ended
	}
	run(func() { emit(1, "It is slow") })
	emit(2, "It is wrong") // nobody is connected
	run(func() {})
	// Output:
	// 1 It is slow
	// 2 It is wrong
}

// A policy sees each occurrence before the application does.
func ExampleOptions_policy() {
	ctx := context.Background()
	mine, emitter, stop := serve(ctx)
	defer stop()
	c, err := client.Connect(ctx, mine, client.Options{Policy: func(_ context.Context, o events.Occurrence) error {
		if strings.Contains(string(o.Raw), "secret") {
			return errors.New("mentions a secret")
		}
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// A type that is known by name only: arguments and payloads are raw JSON.
	sub, err := client.Subscribe(ctx, c, client.Dynamic("issue.opened"), nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, title := range []string{"The secret plan", "It is slow"} {
		if err := emitter.Emit(ctx, Opened{Number: i + 1, Title: title}); err != nil {
			log.Fatal(err)
		}
	}
	for ev, err := range sub.Events() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(ev.Data))
		break
	}
	fmt.Println(sub.Subscription().Status().Withheld, "withheld")
	// Output:
	// {"number":2,"title":"It is slow"}
	// 1 withheld
}

// Some errors stand between items, others end the iteration: only the loop's end says which.
func ExampleTypedSubscription_Events() {
	ctx := context.Background()
	mine, emitter, stop := serve(ctx)
	defer stop()
	c, err := client.Connect(ctx, mine, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// This program's type expects another payload than the server sends.
	type strange struct {
		Number string `json:"number"`
	}
	sub, err := client.Subscribe(ctx, c, events.Type[struct{}, strange]{Info: events.Info{Name: "issue.opened"}}, struct{}{})
	if err != nil {
		log.Fatal(err)
	}
	if err := emitter.Emit(ctx, Opened{Number: 1}, events.WithID("evt_1")); err != nil {
		log.Fatal(err)
	}
	for ev, err := range sub.Events() {
		var payload *client.PayloadError
		switch {
		case errors.As(err, &payload): // the iteration goes on
			fmt.Println("not understood:", payload.Occurrence.ID, string(payload.Occurrence.Raw))
			c.End(c.Subscriptions()[0].ID) // as an operator would
		case errors.As(err, new(*client.GapError)): // so it does here
			fmt.Println("something may be missing here")
		case err != nil: // the last item
			fmt.Println("ended:", errors.Is(err, client.ErrClosed))
		default:
			fmt.Println(ev.Data.Number)
		}
	}
	// Output:
	// not understood: evt_1 {"number":1,"title":""}
	// ended: true
}
