package conversation

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
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
	err = Register(es, Handler[string]{OnUserMessage: func(context.Context, Message) (Answer[string], error) { return Answer[string]{}, nil }}, Options{})
	if err == nil || !strings.Contains(err.Error(), "engine.Shared") {
		t.Fatalf("got %v", err)
	}
}
