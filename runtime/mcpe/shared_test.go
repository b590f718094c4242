package mcpe_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// REP-18: on a store that processes share the protocol is refused, whatever store it has itself, and the
// error says why.
func TestREP18SharedStoreIsRefused(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Store: memcluster.New().Open(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	_, err = mcpe.New(es, mcpe.Options{Store: memory.NewSchedules()})
	if err == nil || !strings.Contains(err.Error(), "engine.Shared") {
		t.Fatalf("got %v", err)
	}
}
