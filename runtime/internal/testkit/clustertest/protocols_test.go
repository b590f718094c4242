package clustertest_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/schedules"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
)

// REP-18: on a store that processes share, a protocol with state in one process is refused, whatever store it has
// itself, and the error says why.
func TestREP18SharedStoreIsRefused(t *testing.T) {
	for name, serve := range map[string]func(es *server.Server) error{
		"mcpc": func(es *server.Server) error {
			_, err := mcpc.New(es, mcpc.Options{})
			return err
		},
		"mcpe": func(es *server.Server) error {
			_, err := mcpe.New(es, mcpe.Options{Store: schedules.New()})
			return err
		},
		"conversation": func(es *server.Server) error {
			return conversation.Register(es, conversation.Handler[string]{OnUserMessage: func(context.Context, conversation.Message) (conversation.Answer[string], error) {
				return conversation.Answer[string]{}, nil
			}}, conversation.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
			es, err := server.New(srv, server.Options{Store: memcluster.New().Open(), Replicas: replicas.New(replicas.Options{}), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer es.Shutdown(context.Background())
			if err := serve(es); err == nil || !strings.Contains(err.Error(), "engine.Shared") {
				t.Errorf("got %v", err)
			}
		})
	}
}
