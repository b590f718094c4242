package mcpeclient_test

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A subscription that receives by MCPE has the same iterator as any other.
func ExampleClient_Via() {
	ctx := context.Background()
	g := exampleServer() // serves github.push with MCPE
	defer g.stop()
	c, err := client.Connect(ctx, client.Dial(g.dial), client.Options{ProtocolVersion: "2025-11-25"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	m := mcpeclient.New(c)
	sub, err := client.Subscribe(ctx, c, pushed, arguments{}, m.Via(mcpeclient.Options{Priority: []string{"high"}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	g.emit(42)
	for ev, err := range sub.Events() {
		fmt.Println(sub.Subscription().Mode(), ev.Name, ev.Data.N, err)
		break
	}
	// Output: mcpe github.push 42 <nil>
}

// A subscription by a filter brings events of any type that matches, as the server wrote them.
func ExampleClient_Receive() {
	ctx := context.Background()
	g := exampleServer() // serves github.push and others with MCPE
	defer g.stop()
	c, err := client.Connect(ctx, client.Dial(g.dial), client.Options{ProtocolVersion: "2025-11-25"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	m := mcpeclient.New(c)
	sub, err := m.Receive(ctx, mcpeclient.Request{Filter: mcpewire.Filter{EventTypes: []string{"github.*"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	g.emit(42)
	for it, err := range sub.Items() {
		switch {
		case err != nil:
			fmt.Println(err) // the last one if client.Final(err)
		case it.Gap:
			fmt.Println("events may be missing here")
		case it.Expired:
			fmt.Println("nothing comes any more")
		}
		for _, e := range it.Events {
			fmt.Println(e.Type, string(e.Data), e.Metadata.Priority)
		}
		break
	}
	// Output: github.push {"n":42} high
}
