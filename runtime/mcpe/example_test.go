package mcpe_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A server with MCPE differs from one without by one call.
func ExampleNew() {
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	adapter, err := mcpe.New(es, mcpe.Options{MaxActive: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer adapter.Shutdown(context.Background())
	defer es.Shutdown(context.Background())
	// Register event types, then serve with package transport.
	fmt.Println(adapter.Stats().Notified, "notifications")
	// Output: 0 notifications
}
