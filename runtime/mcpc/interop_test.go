package mcpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// transcripts reads testdata/<side>/*.txtar: lines that begin with "> " go to the server, those with
// "< " come from it. They are what each release of the original writes.
func transcripts(t *testing.T, side string, f func(t *testing.T, lines []string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", side, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range txtar.Parse(data).Files {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar") + "/" + part.Name
			t.Run(name, func(t *testing.T) { f(t, strings.Split(strings.TrimSpace(string(part.Data)), "\n")) })
		}
	}
}

// MCPC-TEST-1, MCPC-MSG-1, MCPC-WIRE-1: the server against the lines of the original's clients. A
// "< " line has to come as it is, byte for byte but for JSON's freedom of order and space.
func TestServerTranscripts(t *testing.T) {
	transcripts(t, "server", func(t *testing.T, lines []string) {
		g := newRig(t, serverQuiet(), mcpc.Options{Provider: "my-processor"}, nil)
		defer g.stop()
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		g.stops = append(g.stops, func() { cancel(); toServer.Close(); fromServer.Close() })
		g.ran.Go(func() { _ = transport.Run(ctx, g.es, &mcp.IOTransport{Reader: in, Writer: out}) })
		got := bufio.NewReader(fromServer)
		for _, line := range lines {
			if text, ok := strings.CutPrefix(line, "> "); ok {
				if _, err := io.WriteString(toServer, text+"\n"); err != nil {
					t.Fatal(err)
				}
				continue
			}
			text, ok := strings.CutPrefix(line, "< ")
			if !ok {
				continue // a remark
			}
			came, err := got.ReadString('\n')
			if err != nil {
				t.Fatalf("instead of %s: %v", text, err)
			}
			if !same(t, text, came) {
				t.Fatalf("came\n%s\nwant\n%s", came, text)
			}
		}
	})
}

// same compares JSON; "..." in want stands for anything.
func same(t *testing.T, want, got string) bool {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return false
	}
	return alike(w, g)
}

func alike(want, got any) bool {
	switch w := want.(type) {
	case string:
		if w == "..." {
			return true
		}
		g, ok := got.(string)
		if ok && strings.HasPrefix(w, "{") { // a message within a text block
			var inner, other any
			if json.Unmarshal([]byte(w), &inner) == nil && json.Unmarshal([]byte(g), &other) == nil {
				return alike(inner, other)
			}
		}
		return ok && g == w
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k, v := range w {
			if other, has := g[k]; !has || !alike(v, other) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !alike(w[i], g[i]) {
				return false
			}
		}
		return true
	}
	return want == got
}

// MCPC-TEST-1, MCPC-CLI-1: the client against the lines of the original's servers: it probes newest
// first, chooses the form of the metadata by what answered, hears everything in order and leaves
// results alone.
func TestClientTranscripts(t *testing.T) {
	transcripts(t, "client", func(t *testing.T, lines []string) {
		fromClient, clientWrites := io.Pipe()
		clientReads, toClient := io.Pipe()
		var want []string // what the listener has to hear
		served := make(chan struct{})
		go func() {
			defer close(served)
			defer toClient.Close()
			r := bufio.NewReader(fromClient)
			var ids map[string]any
			for _, line := range lines {
				switch {
				case strings.HasPrefix(line, "> "):
					came, err := r.ReadString('\n')
					if err != nil || !same(t, line[2:], came) {
						t.Errorf("came\n%s\nwant\n%s (%v)", came, line[2:], err)
						return
					}
					_ = json.Unmarshal([]byte(came), &ids)
				case strings.HasPrefix(line, "< "):
					b, _ := json.Marshal(ids["id"])
					if _, err := io.WriteString(toClient, strings.Replace(line[2:], `"id":"..."`, `"id":`+string(b), 1)+"\n"); err != nil {
						t.Error(err)
						return
					}
				}
			}
			_, _ = io.Copy(io.Discard, r)
		}()
		for _, line := range lines {
			if heard, ok := strings.CutPrefix(line, "= "); ok {
				want = append(want, heard)
			}
		}
		heard := make(chan string, 100)
		c, err := mcpcclient.Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil),
			&mcp.IOTransport{Reader: clientReads, Writer: clientWrites}, mcpcclient.Options{SessionID: "session123", Logger: quiet,
				Session: &mcp.ClientSessionOptions{ProtocolVersion: legacy},
				Listener: func(_ context.Context, m task.Message) {
					heard <- m.Type + " " + m.Event + " " + m.SessionID + " " + m.TaskID + " " + m.ToolName + " " + string(m.Result)
				}})
		if err != nil {
			t.Fatal(err)
		}
		res, _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "process_data", Arguments: map[string]any{"data_id": "d1"}}, "task1")
		if err != nil || len(res.Content) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		_, enabled := c.Support()
		if enabled != (len(want) > 0) {
			t.Errorf("support %v", enabled)
		}
		for _, w := range want {
			select {
			case got := <-heard:
				if got != w {
					t.Errorf("heard %q, want %q", got, w)
				}
			case <-time.After(time.Minute):
				t.Fatalf("did not hear %q", w)
			}
		}
		fromClient.Close()
		c.Shutdown(context.Background())
		<-served
		if len(heard) > 0 {
			t.Errorf("heard too much: %q", <-heard)
		}
	})
}
