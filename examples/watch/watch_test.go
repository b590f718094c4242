package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// PUSH-5, CLI-7: what the server reports between events is shown and the watching goes on; a
// termination ends it.
func TestWatchGoesOn(t *testing.T) {
	type payload struct {
		N int `json:"n"`
	}
	typ := events.Type[json.RawMessage, payload]{Info: events.Info{Name: "tick", Description: "Ticks.",
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}}
	srv := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tick, err := server.Register(es, typ, server.Hooks[json.RawMessage, payload]{Transform: func(_ context.Context, p *payload, _ *json.RawMessage) error {
		if p.N == 1 {
			return errors.New("the first fails")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(transport.NewHandler(es, transport.HandlerOptions{}))
	t.Cleanup(func() {
		es.Shutdown(context.Background())
		web.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	said := writer(func(b []byte) (int, error) {
		if strings.Contains(string(b), "subscribed") {
			for n := range 2 {
				if err := tick.Emit(ctx, payload{n + 1}); err != nil {
					t.Error(err)
				}
			}
		}
		return stderr.Write(b)
	})
	heard := writer(func(b []byte) (int, error) {
		if err := es.Remove("tick"); err != nil {
			t.Error(err)
		}
		return stdout.Write(b)
	})
	err = run(ctx, []string{"-url", web.URL, "-event", "tick", "-mode", "push"}, heard, said)
	if err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("it ended with %v", err)
	}
	if got := strings.Count(stdout.String(), "\n"); got != 1 || !strings.Contains(stdout.String(), `"data":{"n":2}`) {
		t.Errorf("stdout: %s", stdout.String())
	}
	if !strings.Contains(stderr.String(), "watch: client: tick: server reports:") {
		t.Errorf("stderr: %s", stderr.String())
	}
}
