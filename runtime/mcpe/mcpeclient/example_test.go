package mcpeclient_test

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
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
