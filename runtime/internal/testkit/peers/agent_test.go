package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// BRIDGE-7: an agent with the TypeScript SDK starts a bridge, waits for events by its tools and gets them in order, also
// what happens while nothing runs, and nothing twice. The bridge ends with the agent.
func TestBRIDGE7PeerAgent(t *testing.T) {
	node(t, "agent.mjs") // skips before anything is begun
	bridge := filepath.Join(t.TempDir(), "mcpe-gen")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bridge, "github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "ours", Version: "1"}, nil), server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	ticks, err := server.Register(es, events.Type[struct{}, tick]{Info: events.Info{Name: "tick", Description: "A tick.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"}},"required":["seq"]}`)}},
		server.Hooks[struct{}, tick]{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(transport.NewHandler(es, transport.HandlerOptions{}))
	defer web.Close()
	emitted, state := 0, filepath.Join(t.TempDir(), "state")
	emit := func() {
		for range 3 {
			emitted++
			if err := ticks.Emit(t.Context(), tick{emitted}, events.WithID(fmt.Sprint("e", emitted))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for life, next := 0, 1; life < 2; life++ {
		cmd := node(t, "agent.mjs", bridge, "bridge", "--state", state, web.URL+"/mcp", "tick")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		lines := bufio.NewScanner(out)
		want := func(line string) {
			t.Helper()
			if !lines.Scan() || lines.Text() != line {
				t.Fatalf("%q, want %q", lines.Text(), line)
			}
		}
		want("tools events_inbox events_list events_subscribe events_subscriptions events_unsubscribe events_wait")
		want("active")
		emit()
		for ; next <= emitted; next++ {
			want(fmt.Sprint("event e", next))
		}
		in.Close()
		want("closed")
		if err := cmd.Wait(); err != nil || strings.TrimSpace(lines.Text()) != "closed" {
			t.Fatal(err)
		}
		late.Stop()
		emit() // which the next one gets
	}
}
