package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// Opened is the payload of the example's event type.
type Opened struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
}

var issueOpened = events.Type[json.RawMessage, Opened]{Info: events.Info{
	Name: "issue.opened", Description: "Fires when an issue is opened.",
	InputSchema:   json.RawMessage(`{"type":"object"}`),
	PayloadSchema: json.RawMessage(`{"type":"object","properties":{"number":{"type":"integer"},"title":{"type":"string"}},"required":["number"]}`),
}}

// A client subscribes and receives typed events, whatever delivery mode the two sides agree on.
func Example() {
	ctx := context.Background()
	mine, emitter, stop := serve(ctx)
	defer stop()

	c, err := client.Connect(ctx, mine, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	sub, err := client.Subscribe(ctx, c, issueOpened, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("delivery by", sub.Subscription().Mode())

	for i, title := range []string{"It is slow", "It is wrong"} {
		if err := emitter.Emit(ctx, Opened{Number: i + 1, Title: title}); err != nil {
			log.Fatal(err)
		}
	}
	for ev, err := range sub.Events() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s #%d %s\n", ev.Name, ev.Data.Number, ev.Data.Title)
		if ev.Data.Number == 2 {
			break
		}
	}
	// Output:
	// delivery by push
	// issue.opened #1 It is slow
	// issue.opened #2 It is wrong
}

// serve runs a server in this process and returns the client's side of the connection.
func serve(ctx context.Context) (mcp.Transport, *server.Emitter[Opened], func()) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	emitter, err := server.Register(es, issueOpened, server.Hooks[json.RawMessage, Opened]{})
	if err != nil {
		log.Fatal(err)
	}
	mine, theirs := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() { ended <- transport.Run(ctx, es, theirs) }()
	return mine, emitter, func() {
		if err := es.Shutdown(ctx); err != nil {
			log.Fatal(err)
		}
		<-ended
	}
}
