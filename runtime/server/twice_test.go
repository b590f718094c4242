package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

func newMCP() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil) }

// SRV-1: an mcp.Server serves the event types of one Server: the second would take the methods from the first, whose
// types nobody could subscribe to any more. Shutdown changes nothing about that; what could not be made does not count.
func TestOneServerPerMCPServer(t *testing.T) {
	srv := newMCP()
	if _, err := server.New(srv, server.Options{Webhooks: webhooks.New(webhooks.Options{AllowNoExpiry: true})}); err == nil {
		t.Fatal("a subscription that never expires needs a durable store")
	}
	es, err := server.New(srv, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if again, err := server.New(srv, server.Options{}); again != nil || err == nil || !strings.Contains(err.Error(), "this mcp.Server already serves events") {
			t.Errorf("%s: got %v, %v", when, again, err)
		}
	}
	refused("a second time")
	if err := es.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("after Shutdown")
	other, err := server.New(newMCP(), server.Options{})
	if err != nil {
		t.Fatalf("another mcp.Server: %v", err)
	}
	if err := other.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each protocol is served once on a server.
func TestOneAdapterPerServer(t *testing.T) {
	es, err := server.New(newMCP(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(t.Context())
	for protocol, serve := range map[string]func() error{
		"MCPE": func() error {
			_, err := mcpe.New(es, mcpe.Options{})
			return err
		},
		"MCPC": func() error {
			_, err := mcpc.New(es, mcpc.Options{})
			return err
		},
		"conversation with context": func() error {
			h := conversation.Handler[json.RawMessage]{OnUserMessage: func(context.Context, conversation.Message) (a conversation.Answer[json.RawMessage], err error) {
				return a, nil
			}}
			return conversation.Register(es, h, conversation.Options{})
		},
	} {
		if err := serve(); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		if err := serve(); err == nil || !strings.Contains(err.Error(), "this server already serves "+protocol) {
			t.Errorf("%s, a second time: got %v", protocol, err)
		}
	}
}
