package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant/assistantclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// start makes an assistant in memory, which ends with the test.
func start(t *testing.T, o options) *application {
	t.Helper()
	a, err := assemble(t.Context(), o, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(a, nil); err != nil {
			t.Error(err)
		}
	})
	return a
}

// One Emit reaches the clients of MCP Events, MCPE and MCPC, in both eras; raise_incident needs no
// argument.
func TestOneEmitReachesAll(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			a := start(t, options{stdio: true, db: filepath.Join(t.TempDir(), "a.db")})
			c := eventstest.NewClient(t, a.es, func(o *eventstest.Options) { o.ProtocolVersion = version })
			k, err := mcpcclient.Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil), c.Transport(),
				mcpcclient.Options{Session: &mcp.ClientSessionOptions{ProtocolVersion: version}, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Shutdown(context.Background())
			got := make(chan string, 8)
			defer mcpcclient.ListenEvent(k, "incident.created", func(_ context.Context, _ task.Message, p assistant.IncidentCreatedPayload) {
				got <- "MCPC " + p.Title
			})()
			byPush := client.WithMode("push")
			for by, o := range map[string]client.SubscribeOption{"MCP Events": byPush, "MCPE": mcpeclient.New(c.Client).Via(mcpeclient.Options{})} {
				sub, err := assistantclient.SubscribeIncidentCreated(t.Context(), c.Client, assistant.IncidentCreatedArguments{}, o)
				if err != nil {
					t.Fatal(by, err)
				}
				go func() {
					for ev, err := range sub.Events() {
						if err == nil {
							got <- by + " " + ev.Data.Title
						}
					}
				}()
			}
			res, err := k.Session().CallTool(t.Context(), &mcp.CallToolParams{Name: "raise_incident"})
			if err != nil || res.IsError {
				t.Fatal(res, err)
			}
			missing := map[string]bool{"MCP Events Unnamed incident": true, "MCPE Unnamed incident": true, "MCPC Unnamed incident": true}
			for len(missing) > 0 {
				select {
				case g := <-got:
					if !missing[g] {
						t.Errorf("%s came twice or is something else", g)
					}
					delete(missing, g)
				case <-time.After(30 * time.Second):
					t.Fatalf("missing: %v", missing)
				}
			}
		})
	}
}

// The tools refuse what they cannot do, in words for the model.
func TestTools(t *testing.T) {
	s := eventstest.NewClient(t, start(t, options{stdio: true}).es).Session()
	call := func(tool string, args map[string]any) string {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"resolve_incident", nil, "no such open incident"},
		{"raise_incident", map[string]any{"severity": "P9"}, "P9"},
		{"raise_incident", nil, "INC-1"},
		{"resolve_incident", nil, "INC-1"},
		{"write_report", nil, `"incidents":1`},
		{"write_report", map[string]any{"service": "search"}, "Incidents of search"},
	} {
		if got := call(c.tool, c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %s", c.tool, c.args, got)
		}
	}
}

// SRV-2: a tool that has done its work does not fail because nobody was told of it: a model would do the work again.
func TestToolsSurviveAFailedEmit(t *testing.T) {
	var said bytes.Buffer
	srv := mcp.NewServer(&mcp.Implementation{Name: "assistant", Version: "0.1.0"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDesk(srv, es, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := es.Shutdown(t.Context()); err != nil { // Emit fails from here on
		t.Fatal(err)
	}
	if _, got, err := d.raise(t.Context(), nil, raiseInput{}); err != nil || got.IncidentID != "INC-1" {
		t.Errorf("raise_incident: %+v %v", got, err)
	}
	if _, got, err := d.resolve(t.Context(), nil, resolveInput{}); err != nil || got.IncidentID != "INC-1" {
		t.Errorf("resolve_incident: %+v %v", got, err)
	}
	if n := strings.Count(said.String(), "incident=INC-1"); n != 2 {
		t.Errorf("the log tells of %d events, want 2:\n%s", n, said.String())
	}
}

// What the memory adds depends on the message; one that is about nothing it knows adds nothing.
func TestMemory(t *testing.T) {
	d := &desk{incidents: []*incident{
		{IncidentCreatedPayload: assistant.IncidentCreatedPayload{IncidentID: "INC-1", Title: "Payments fail", Service: "checkout"}},
		{IncidentCreatedPayload: assistant.IncidentCreatedPayload{IncidentID: "INC-2", Title: "Slow", Service: "search"}, over: true},
	}}
	for message, want := range map[string]string{
		"Good morning": "", "Is checkout down?": "INC-1 notes", "Do payments work?": "INC-1", "any incidents today?": "INC-1 INC-2", "what of inc-2": "INC-2",
	} {
		a, err := d.remember(t.Context(), conversation.Message{MessageID: "1", Content: message})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if a.Structured != nil {
			for _, m := range a.Structured.Memories {
				name, _, _ := strings.Cut(m.Content, " ")
				if m.Source == "notes" {
					name = "notes"
				}
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", message, got, want)
		}
	}
}

// run serves HTTP until its context ends, and that takes no longer than promised while a client
// listens. Wrong settings are errors.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	defer r.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, options{http: "127.0.0.1:0", db: filepath.Join(t.TempDir(), "a.db")}, w)
		w.Close()
	}()
	first := make([]byte, 200)
	n, err := r.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	_, base, _ := strings.Cut(strings.TrimSpace(string(first[:n])), "listening on ")
	hc := &http.Client{Transport: &http.Transport{}}
	c, err := client.Connect(t.Context(), client.HTTP(base+"/mcp", hc), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := assistantclient.SubscribeIncidentCreated(t.Context(), c, assistant.IncidentCreatedArguments{}, client.WithMode("push"))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the server did not end in time")
	}
	c.Close()
	hc.CloseIdleConnections()

	for _, argv := range [][]string{nil, {"-stdio", "x"}, {"-nonsense"}} {
		if _, err := parse(argv, io.Discard); err == nil {
			t.Errorf("%v is accepted", argv)
		}
	}
	if err := run(t.Context(), options{http: "127.0.0.1:0", tokens: filepath.Join(t.TempDir(), "none")}, io.Discard); err == nil {
		t.Error("a missing file of tokens is accepted")
	}
}

// The client program shows every protocol against the server as a process, and fails when there is
// no such server.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds programs")
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, ".", "../assistantclient").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(bin, "assistantclient"), filepath.Join(bin, "assistant"), "-stdio").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"MCP Events:", "MCPE:", "MCPC:", "Conversation events:", "update: 3 of 3"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	var exit *exec.ExitError
	if err := exec.Command(filepath.Join(bin, "assistantclient"), "-timeout", "5s", filepath.Join(bin, "assistant"), "-nonsense").Run(); !errors.As(err, &exit) {
		t.Errorf("without a server: %v", err)
	}
}
