package mcpc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// waitFor waits until f holds.
func waitFor(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// waits is a task that ends with its context.
func waits(ended *atomic.Int32) mcpc.Func[arguments, update, result] {
	return func(ctx context.Context, _ arguments, _ *mcpc.Task[update]) (result, error) {
		<-ctx.Done()
		ended.Add(1)
		return result{}, ctx.Err()
	}
}

// MCPC-SRV-1, MCPC-SRV-3: over HTTP a task ends with the session that has asked for it, though the
// SDK would wait for the call, and in the stateless era with the request.
func TestHTTPSessionEnds(t *testing.T) {
	for _, version := range eras {
		var ended atomic.Int32
		g := newRig(t, serverQuiet(), mcpc.Options{}, waits(&ended))
		url := g.serve()
		ann, bob := g.connect(url, "ann", version, mcpcclient.Options{}), g.connect(url, "bob", version, mcpcclient.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []*mcpcclient.Client{ann, bob} {
			user := t.Context()
			if c == ann {
				user = ctx
			}
			g.ran.Go(func() {
				_, _, _ = c.CallTool(user, &mcp.CallToolParams{Name: "count", Arguments: arguments{Steps: 1}}, "same")
			})
		}
		waitFor(t, "both run", func() bool { return len(g.a.Tasks()) == 2 })
		if version == legacy {
			// The SDK's client would wait for its call before it asks.
			r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Mcp-Session-Id", ann.Session().ID())
			for _, user := range []bearer{"bob", "ann"} {
				resp, err := user.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if user == "bob" && ended.Load() != 0 {
					t.Error("bob has ended ann's task")
				}
			}
			waitFor(t, "ann's session ends", func() bool { return ended.Load() == 1 })
		}
		cancel()
		waitFor(t, "ann's task ends", func() bool { return ended.Load() == 1 && len(g.a.Tasks()) == 1 })
		if left := g.a.Tasks(); left[0].Session.Principal != "bob" {
			t.Errorf("left: %+v", left)
		}
		g.es.Shutdown(t.Context())
		waitFor(t, "the server's end", func() bool { return ended.Load() == 2 })
		g.stop()
	}
}

// MCPC-WIRE-1: many tasks write whole lines, each task's in order, and a peer that reads nothing for
// a while loses nothing.
func TestManyTasksOnStdio(t *testing.T) {
	const tasks, steps = 8, 300
	g := newRig(t, serverQuiet(), mcpc.Options{}, func(_ context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
		for range a.Steps {
			if err := tk.Update(update{1}); err != nil {
				return result{}, err
			}
		}
		return result{a.Steps}, nil
	})
	defer g.stop()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	g.stops = append(g.stops, func() { cancel(); toServer.Close(); fromServer.Close() })
	g.ran.Go(func() { _ = transport.Run(ctx, g.es, &mcp.IOTransport{Reader: in, Writer: out}) })
	lines := bufio.NewScanner(fromServer)
	lines.Buffer(nil, 1<<20)
	fmt.Fprintln(toServer, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	lines.Scan()
	fmt.Fprintln(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range tasks {
		fmt.Fprintf(toServer, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"count","arguments":%s}}`+"\n", i+1, withTask(steps, fmt.Sprint("t", i)))
	}
	time.Sleep(100 * time.Millisecond) // the server has more to say than its queue holds
	updates, complete := map[string]int{}, 0
	for complete < tasks && lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) || !strings.HasSuffix(line, "}") {
			t.Fatalf("line %q", line)
		}
		id := line[strings.Index(line, `\"task_id\":\"`)+len(`\"task_id\":\"`):][:2]
		switch {
		case strings.Contains(line, `\"event\":\"created\"`):
			if updates[id] != 0 {
				t.Fatalf("%s: created after %d updates", id, updates[id])
			}
		case strings.Contains(line, `\"event\":\"update\"`):
			updates[id]++
		case strings.Contains(line, `\"event\":\"complete\"`):
			complete++
			if updates[id] != steps {
				t.Errorf("%s: %d updates", id, updates[id])
			}
		}
	}
	if complete != tasks {
		t.Errorf("%d complete", complete)
	}
}
