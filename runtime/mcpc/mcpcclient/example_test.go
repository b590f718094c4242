package mcpcclient_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

func ExampleConnect() {
	ctx := context.Background()
	near, far := mcp.NewInMemoryTransports()
	srv := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	session, err := srv.Connect(ctx, near, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Wait()

	c, err := mcpcclient.Connect(ctx, mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1"}, nil), far, mcpcclient.Options{
		Listener: func(_ context.Context, m task.Message) { fmt.Println(m.ToolName, m.Event) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Shutdown(context.Background())
	if _, ok := c.Support(); !ok {
		fmt.Println("this server does not speak MCPC; its tools work as ever")
	}
	// Output: this server does not speak MCPC; its tools work as ever
}
