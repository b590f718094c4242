package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt/adopttest"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// adoptCopy copies a module of testdata, and runs init in it with what the flags say. It gives the directory and what
// init said.
func adoptCopy(t *testing.T, from string, flags ...string) (dir, said string) {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "module")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"init", dir, "--replace", checkout}, flags...), &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK {
		t.Fatalf("init: exit code %d\n%s", code, &stderr)
	}
	return dir, stdout.String()
}

// buildAdopted builds the program of a module, and starts it in its directory. It gives the URL of its MCP endpoint.
func buildAdopted(t *testing.T, dir string) string {
	t.Helper()
	resolve(t, dir)
	goRun(t, dir, "build", "-o", "server.exe", ".")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "server.exe"), "-http", "127.0.0.1:0")
	var log clitest.Lines
	cmd.Dir, cmd.Stderr = dir, &log
	cmd.Env = append(os.Environ(), "OPERATOR_TOKEN=0123456789abcdef")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return log.Find(t, regexp.MustCompile(`http://[^ ]+/mcp`))
}

// callTool calls a tool as somebody.
func callTool(t *testing.T, url string, as bearer, name string, args map[string]string) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: as}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args}); err != nil || result.IsError {
		t.Fatalf("%s: %+v, %v", name, result, err)
	}
}

// E2: init serves the events next to a server that is made for each request; the page's form, in which its tools emit
// and a hook matches, brings each caller what is theirs.
func TestAdoptPerCaller(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds a server")
	}
	dir, said := adoptCopy(t, "testdata/adopt/percaller/before")
	page := readText(t, "../../docs/adopting.md")
	before, after := readText(t, "testdata/adopt/percaller/before/main.go"), readText(t, "testdata/adopt/percaller/after/main.go")
	if !strings.HasPrefix(said, "Found a server of the official SDK that is created or chosen for each request, NewStreamableHTTPHandler at main.go:45: it stays, and gets events next to it.\n") ||
		!strings.Contains(said, "overlay.NewHandler(es, mcp.NewStreamableHTTPHandler(func") {
		t.Errorf("init says\n%s", said)
	}
	for _, part := range [][3]string{{before, "// serverFor is", "// verify"}, {before, "\thandler := ", "\tauthenticate"}, {after, "// serverFor is", "// verify"}, {after, "\tnoteAdded, err := ", "\tif err"}, {after, "\thandler := ", "\tauthenticate"}} {
		_, text, _ := strings.Cut(part[0], part[1])
		text, _, _ = strings.Cut(text, part[2])
		if text = part[1] + text; !strings.Contains(page, strings.TrimRight(text, "\n")) {
			t.Errorf("docs/adopting.md does not show\n%s", text)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(after), 0o666); err != nil {
		t.Fatal(err)
	}
	url := buildAdopted(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := map[string]func() string{}
	for _, user := range []string{"ada", "bob"} {
		c, err := client.Connect(ctx, client.HTTP(url, &http.Client{Transport: bearer("s3cret-of-" + user)}), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		sub, err := client.Subscribe(ctx, c, client.Dynamic("note.added"), json.RawMessage(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		next[user] = func() string {
			for ev, err := range sub.Events() {
				if err != nil {
					t.Fatal(err)
				}
				return string(ev.Raw)
			}
			t.Fatal("the subscription ended")
			return ""
		}
	}
	callTool(t, url, "s3cret-of-ada", "add_todo", map[string]string{"id": "1", "text": "hers"})
	callTool(t, url, "s3cret-of-bob", "add_todo", map[string]string{"id": "2", "text": "his"})
	for user, text := range map[string]string{"ada": `"hers"`, "bob": `"his"`} {
		if got := next[user](); !strings.Contains(got, text) {
			t.Errorf("the first event of %s is %s", user, got)
		}
	}
}

// E8: --store, --auth, --webhooks and --console in a module that is there: what init writes builds, asks for tokens,
// takes webhook subscriptions, and keeps events in a file.
func TestAdoptFlags(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds a server")
	}
	dir, said := adoptCopy(t, "testdata/adopt/before", "--format", "json", "--store", "sqlite", "--auth", "bearer", "--webhooks", "--console")
	if !strings.Contains(said, "tokens.json has who may call") {
		t.Errorf("init says\n%s", said)
	}
	adopttest.Apply(t, dir, adopttest.Parse(t, []byte(said)))
	name := filepath.Join(dir, "main.go")
	text := readText(t, name)
	for _, edit := range [][2]string{
		{"\t_ = noteAdded // noteAdded.Emit tells every subscriber\n", ""},
		{"return nil, nil, nil", "return nil, nil, noteAdded.Emit(ctx, notes.NoteAddedPayload{ID: n.ID, Author: notes.Author{Name: n.Author}, Text: n.Text, AddedAt: events.NewTime(time.Now())})"},
		{"\t\"example.com/tickets/internal/notes/notesserver\"", "\t\"example.com/tickets/internal/notes\"\n\t\"example.com/tickets/internal/notes/notesserver\""},
		{"\teventserver \"", "\t\"github.com/mcpe-gen/mcpe-gen/runtime/events\"\n\teventserver \""},
		{"\t_ = console ", "\tgo func() { log.Fatal(http.ListenAndServe(\"127.0.0.1:0\", console)) }() "},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("main.go has no %q", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	for name, content := range map[string]string{name: text, filepath.Join(dir, "tokens.json"): `{"s3cret-of-ada": "ada"}`} {
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	url := buildAdopted(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	post := func(as bearer, body string) (int, string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if as != "" {
			r.Header.Set("Authorization", "Bearer "+string(as))
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		return resp.StatusCode, b.String()
	}
	if code, _ := post("", `{}`); code != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", code)
	}
	c, err := client.Connect(ctx, client.HTTP(url, &http.Client{Transport: bearer("s3cret-of-ada")}), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.List(ctx)
	if err != nil || len(list) != 1 || !strings.Contains(strings.Join(list[0].Delivery, " "), "webhook") {
		t.Errorf("%+v %v", list, err)
	}
	callTool(t, url, "s3cret-of-ada", "add_note", map[string]string{"id": "1", "author": "ada", "text": "kept"})
	if _, err := os.Stat(filepath.Join(dir, "events.db")); err != nil {
		t.Error(err)
	}
}
