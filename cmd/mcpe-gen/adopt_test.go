package main

import (
	"bytes"
	"context"
	"io"
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

// TestAdopt does what docs/adopting.md describes: the server in testdata/adopt/before becomes the one in
// testdata/adopt/after by the edits of init and the two of the page, builds, and what its tool does reaches a subscriber
// as an event.
func TestAdopt(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	page := readText(t, "../../docs/adopting.md")
	before, after := readText(t, "testdata/adopt/before/main.go"), readText(t, "testdata/adopt/after/main.go")
	_, said := adoptCopy(t, "testdata/adopt/before")
	_, lines, _ := strings.Cut(said, "\nmain.go:")
	lines, _, _ = strings.Cut("main.go:"+lines, "\nNext:")
	if !strings.Contains(page, lines) {
		t.Errorf("docs/adopting.md does not show the lines\n%s", lines)
	}
	dir, document := adoptCopy(t, "testdata/adopt/before", "--format", "json")
	adopttest.Apply(t, dir, adopttest.Parse(t, []byte(document)))
	if !strings.Contains(page, before) {
		t.Error("docs/adopting.md does not show testdata/adopt/before/main.go")
	}

	// The page's edits: what the author writes.
	text := readText(t, filepath.Join(dir, "main.go"))
	for _, edit := range [][2]string{
		{"\t_ = noteAdded // noteAdded.Emit tells every subscriber\n", ""},
		{"\t\t\treturn nil, nil, nil\n", `			err := noteAdded.Emit(ctx, notes.NoteAddedPayload{
				ID:      n.ID,
				Author:  notes.Author{Name: n.Author},
				Text:    n.Text,
				AddedAt: events.NewTime(time.Now()),
			}, events.WithID("note-"+n.ID))
			if err != nil {
				log.Print(err) // the work is done, so the tool does not fail
			}
			return nil, nil, nil
`},
		{"\t\"example.com/tickets/internal/notes/notesserver\"", "\t\"example.com/tickets/internal/notes\"\n\t\"example.com/tickets/internal/notes/notesserver\""},
		{"\teventserver \"", "\t\"github.com/mcpe-gen/mcpe-gen/runtime/events\"\n\teventserver \""},
	} {
		if strings.Count(text, edit[0]) != 1 {
			t.Fatalf("main.go does not have %q once", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
		if edit[1] != "" && !strings.Contains(page, strings.Split(strings.TrimSpace(edit[1]), "\n")[0]) {
			t.Errorf("docs/adopting.md does not show %q", edit[1])
		}
	}
	if text != after {
		t.Errorf("main.go is not testdata/adopt/after/main.go but\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	resolve(t, dir)
	goRun(t, dir, "build", "-o", "server.exe", ".")
	if out, code := runIn(t, dir, "generate", "--check"); code != cli.OK {
		t.Errorf("generate --check: exit code %d\n%s", code, out)
	}
	callAndReceive(t, filepath.Join(dir, "server.exe"))
}

// callAndReceive calls the tool of the server and expects its event.
func callAndReceive(t *testing.T, program string) {
	cmd := exec.CommandContext(t.Context(), program, "-http", "127.0.0.1:0")
	var log clitest.Lines
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	url := log.Find(t, regexp.MustCompile(`http://[^ ]+/mcp`))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	c := receive(t, client.HTTP(url, nil), `{"author": "ada"}`, func() {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "add_note",
			Arguments: map[string]string{"id": "1", "author": "ada", "text": "hello"}})
		if err != nil || result.IsError {
			t.Errorf("add_note: %+v, %v", result, err)
		}
	})
	c.Close()
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runIn runs a verb in a directory, in this process.
func runIn(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	t.Chdir(dir)
	var stderr bytes.Buffer
	code := run(args, io.Discard, &stderr, cli.VersionOf(nil))
	return stderr.String(), code
}
