package mcpc_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// mcpe-gen makes these types and the description of each entry of tasks.
	type (
		Arguments struct {
			Team string `json:"team"`
		}
		Update struct {
			Percent int `json:"percent"`
		}
		Result struct {
			Pages int `json:"pages"`
		}
	)
	report := task.Type[Arguments, Update, Result]{Info: task.Info{
		Name: "write_report", Description: "Write the report of a team.",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"team":{"type":"string"}},"required":["team"]}`),
		UpdateSchema: json.RawMessage(`{"type":"object","properties":{"percent":{"type":"integer"}}}`),
		ResultSchema: json.RawMessage(`{"type":"object","properties":{"pages":{"type":"integer"}}}`),
	}}

	srv := mcp.NewServer(&mcp.Implementation{Name: "reports", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	adapter, err := mcpc.New(es, mcpc.Options{Provider: "reports"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adapter.Shutdown(context.Background())
	err = mcpc.RegisterTask(adapter, report, func(ctx context.Context, args Arguments, t *mcpc.Task[Update]) (Result, error) {
		for _, percent := range []int{50, 100} {
			if err := t.Update(Update{percent}); err != nil {
				return Result{}, err
			}
		}
		return Result{Pages: 12}, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	near, far := mcp.NewInMemoryTransports()
	go transport.Run(ctx, es, near)

	c, err := mcpcclient.Connect(ctx, mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1"}, nil), far, mcpcclient.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Shutdown(context.Background())
	mcpcclient.Listen(c, report, mcpcclient.Listener[Update, Result]{
		Update: func(_ context.Context, _ task.Message, u Update) { fmt.Println(u.Percent, "%") },
	})
	running, err := mcpcclient.Call(ctx, c, report, Arguments{Team: "ops"})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := running.Wait(ctx)
	fmt.Println(result.Pages, "pages", err)
	// Output:
	// 50 %
	// 100 %
	// 12 pages <nil>
}
