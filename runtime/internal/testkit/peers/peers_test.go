package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// installed names the directory with the programs and their node_modules.
const installed = "MCPE_TEST_PEERS"

// node makes a command of one of the programs. Where they are not installed the test says so.
func node(t *testing.T, args ...string) *exec.Cmd {
	dir := os.Getenv(installed)
	if dir == "" {
		t.Skipf("NOT RUN: %s; `make peers` installs and runs them", t.Name())
	}
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Args[1] = filepath.Join(dir, args[0])
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts a server of events and waits until it listens. begin makes its events begin; kill kills it.
func start(t *testing.T, version string, port int, t0 time.Time) (begin, kill func()) {
	cmd := node(t, "server.mjs", version, fmt.Sprint(port), fmt.Sprint(t0.UnixMilli()), "100")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("%q, %v", line, err)
	}
	begin = func() {
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
	}
	return begin, func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// From a server with either TypeScript SDK everything is received once and in order, by poll and by push, in each era
// that it speaks, over a kill and a restart of its process.
func TestPeerServers(t *testing.T) {
	for _, peer := range []struct{ sdk, version, revision string }{
		{"1.32.2", "1", ""}, {"2.4.0", "2", ""}, {"2.4.0", "2", wire.RevisionLegacy},
	} {
		t.Run(fmt.Sprintf("%s asked for %q", peer.sdk, peer.revision), func(t *testing.T) {
			node(t, "server.mjs") // skips before anything is begun
			port := freePort(t)
			begin, kill := start(t, peer.version, port, time.Now().Add(24*time.Hour))
			defer func() { kill() }()
			cl, err := client.Connect(t.Context(), client.HTTP(fmt.Sprintf("http://127.0.0.1:%d/mcp", port), nil),
				client.Options{ProtocolVersion: peer.revision, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			got := map[string]chan string{}
			for _, mode := range []string{wire.ModePush, wire.ModePoll} {
				s, err := client.Subscribe(t.Context(), cl, client.Dynamic("tick"), json.RawMessage(nil), client.WithMode(mode))
				if err != nil {
					t.Fatal(mode, err)
				}
				ch := make(chan string, 1000)
				got[mode] = ch
				go func() {
					for ev, err := range s.Events() {
						if err != nil {
							ch <- err.Error()
							continue
						}
						ch <- ev.ID
					}
				}()
			}
			began := time.Now()
			begin()
			time.Sleep(2 * time.Second) // some 40 of 100
			kill()
			_, kill = start(t, peer.version, port, began)
			for mode, ch := range got {
				for n := 1; n <= 100; n++ {
					select {
					case id := <-ch:
						if id != fmt.Sprint("e", n) {
							t.Fatalf("%s: %s, want e%d", mode, id, n)
						}
					case <-time.After(time.Minute):
						t.Fatalf("%s: no e%d", mode, n)
					}
				}
				select {
				case id := <-ch:
					t.Errorf("%s: %s after the last one", mode, id)
				case <-time.After(time.Second):
				}
			}
		})
	}
}

type tick struct {
	Seq int `json:"seq"`
}

// What a client of another make got.
type answers struct {
	List struct {
		Events []struct {
			Name     string
			Delivery []string
		}
	}
	Polled, Waited struct {
		Events []struct {
			EventID string
			Data    tick
		}
		Cursor string
	}
	Tools   []string
	Refusal int
}

// Clients with either TypeScript SDK, in each era that it speaks, and the AI SDK get what our server emits: by
// requests of the extension where they can send them, by the tool where not.
func TestPeerClients(t *testing.T) {
	for _, make := range []string{"1", "2", "2-legacy", "ai-sdk"} {
		t.Run(make, func(t *testing.T) {
			node(t, "client.mjs") // skips before anything is begun
			tryClient(t, make, serve(t, func(es *server.Server) http.Handler { return transport.NewHandler(es, transport.HandlerOptions{}) }), "events_wait")
		})
	}
}

// serve serves events by a handler on loopback. A POST to /emit emits one.
func serve(t *testing.T, handler func(*server.Server) http.Handler) (url string) {
	t.Helper()
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "ours", Version: "1"}, nil), server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ticks, err := server.Register(es, events.Type[struct{}, tick]{Info: events.Info{Name: "tick", Description: "A tick.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"}},"required":["seq"]}`)}},
		server.Hooks[struct{}, tick]{})
	if err != nil {
		t.Fatal(err)
	}
	if err := es.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler(es))
	mux.HandleFunc("POST /emit", func(w http.ResponseWriter, r *http.Request) {
		if err := ticks.Emit(r.Context(), tick{7}, events.WithID("e7")); err != nil {
			t.Error(err)
		}
	})
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		es.Shutdown(context.Background())
		web.Close()
	})
	return web.URL + "/mcp"
}

// tryClient runs a client of another make and checks what it got.
func tryClient(t *testing.T, make, url string, tools ...string) {
	t.Helper()
	out, err := node(t, "client.mjs", make, url).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got answers
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if slices.Sort(got.Tools); !slices.Equal(got.Tools, tools) {
		t.Errorf("tools %v", got.Tools)
	}
	if w := got.Waited.Events; len(w) != 1 || w[0].EventID != "e7" || w[0].Data.Seq != 7 {
		t.Errorf("waited: %s", out)
	}
	if make == "ai-sdk" {
		return // it sends nothing but what MCP itself has
	}
	if l := got.List.Events; len(l) != 1 || l[0].Name != "tick" || !slices.Equal(l[0].Delivery, []string{"push", "poll"}) && !slices.Equal(l[0].Delivery, []string{"poll", "push"}) {
		t.Errorf("listed: %s", out)
	}
	if p := got.Polled.Events; len(p) != 1 || p[0].EventID != "e7" || got.Polled.Cursor == "" {
		t.Errorf("polled: %s", out)
	}
	if got.Refusal != int(wire.Sketch.Code(wire.NotFound)) && got.Refusal != int(wire.SEP.Code(wire.NotFound)) {
		t.Errorf("refused with %d: %s", got.Refusal, out)
	}
}

// The versions are exact, and there is no lock file, which would name the registry.
func TestPinned(t *testing.T) {
	text, err := os.ReadFile("testdata/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &p); err != nil || len(p.Dependencies) < 4 {
		t.Fatal(err, p)
	}
	for name, version := range p.Dependencies {
		if strings.Trim(version, "0123456789.") != "" || strings.Count(version, ".") != 2 {
			t.Errorf("%s: %q is no exact version", name, version)
		}
	}
	if _, err := os.Stat("testdata/package-lock.json"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
