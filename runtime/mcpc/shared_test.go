package mcpc_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A sharedStore says that other processes use it; its cluster cannot be reached.
type sharedStore struct{ store.Shared }

func (sharedStore) Join(context.Context, string, time.Duration, map[string]string) (store.Lease, error) {
	return store.Lease{}, errors.New("no database")
}

func (sharedStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	return memory.New().OpenLog(ctx, name, o)
}

// REP-18: on a store that processes share the protocol is refused, whatever store it has itself, and the
// error says why.
func TestREP18SharedStoreIsRefused(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Store: sharedStore{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	_, err = mcpc.New(es, mcpc.Options{})
	if err == nil || !strings.Contains(err.Error(), "store.Shared") {
		t.Fatalf("got %v", err)
	}
}
