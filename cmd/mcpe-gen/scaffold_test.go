package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.yaml.in/yaml/v4"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// maxIndirect is the largest number of indirect modules in the go.mod of a server without options.
const maxIndirect = 15

// TestScaffold does what an author does after "mcpe-gen init": build, vet, test and generate in a
// module of its own whose go.mod replaces this one, start the server, receive an event, stop it; and
// what the scaffold's CI does. [TestScaffolds] tries other choices.
func TestScaffold(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	dir := scaffold(t)
	goRun(t, dir, "build", "-o", "server.exe", ".")
	writeReadme(t, dir)
	generated := filepath.Join(dir, "internal", "notes", "notesserver", "tools.json")
	for _, from := range []string{".", "internal/notes"} {
		if err := os.Remove(generated); err != nil {
			t.Fatal(err)
		}
		goRun(t, filepath.Join(dir, from), "generate", "example.com/demo")
	}
	if n := strings.Count(readText(t, filepath.Join(dir, "go.mod")), "// indirect"); n > maxIndirect {
		t.Errorf("go.mod has %d indirect modules, more than %d", n, maxIndirect)
	}
	runWorkflow(t, dir)
	serveStdio(t, filepath.Join(dir, "server.exe"), nil)
}

// runWorkflow runs the commands of the scaffold's CI in their order, as for a pull request that
// changes nothing, and expects of lint that it finds nothing at all.
func runWorkflow(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, ".github", "workflows", "ci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Uses, If, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatalf("ci.yml: %v", err)
	}
	// What actions/checkout leaves: a clone that knows main.
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "Start"},
		{"update-ref", "refs/remotes/origin/main", "HEAD"}} {
		succeed(t, dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	}
	var ran []string
	for _, step := range workflow.Jobs["test"].Steps {
		if step.Run == "" {
			continue
		}
		out := succeed(t, dir, "sh", "-c", step.Run)
		if strings.Contains(step.Run, "mcpe-gen lint") && out != "" {
			t.Errorf("lint finds\n%s", out)
		}
		ran = append(ran, step.Run)
	}
	for _, want := range []string{"go test ./...", "go tool -modfile=tools/go.mod mcpe-gen generate --check", "go tool -modfile=tools/go.mod mcpe-gen lint", "go tool -modfile=tools/go.mod mcpe-gen breaking --against git:origin/main"} {
		if !strings.Contains(strings.Join(ran, "\n"), want) {
			t.Errorf("CI does not run %q but %q", want, ran)
		}
	}
}

// scaffold runs init and gives the directory of the new module, with its modules resolved.
func scaffold(t *testing.T, flags ...string) string {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "demo")
	var stderr bytes.Buffer
	args := append([]string{"init", dir, "--module", "example.com/demo", "--replace", checkout}, flags...)
	if code := run(args, io.Discard, &stderr, cli.VersionOf(nil)); code != cli.OK {
		t.Fatalf("init: exit code %d\n%s", code, &stderr)
	}
	resolve(t, dir)
	return dir
}

// resolve completes go.mod and tools/go.mod. "go mod tidy" would also want modules that only tests of dependencies need,
// and a test must not use the network: loading the packages with -mod=mod and the go.sum of this module does as much.
func resolve(t *testing.T, dir string) {
	t.Helper()
	write(t, dir, map[string]string{"go.sum": sums(t), "tools/go.sum": sums(t)})
	goRun(t, dir, "list", "-deps", "-test", "./...")
	goRun(t, dir, "list", "-modfile=tools/go.mod", "tool")
}

// sums returns the go.sum lines of this module, and of the exporters of --metrics.
func sums(t *testing.T) string {
	t.Helper()
	return readText(t, "../../go.sum") + readText(t, "testdata/exporters/go.sum")
}

// requireExporters adds the modules of the exporters to go.mod, with those that they import.
func requireExporters(t *testing.T, dir string) {
	t.Helper()
	edit := []string{"mod", "edit"}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(readText(t, "testdata/exporters/go.mod"), -1) {
		edit = append(edit, "-require="+m[1]+"@"+m[2])
	}
	goRun(t, dir, edit...)
}

// writeReadme adds the Go code that README.md shows for such a project, below "Five minutes", each block in a function
// of its own, so that vet compiles it as it is shown.
func writeReadme(t *testing.T, dir string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, ok := bytes.Cut(readme, []byte("\n## Five minutes"))
	if !ok {
		t.Fatal("README.md has no part \"Five minutes\"")
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```\n").FindAllSubmatch(shown, -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of Go, want the server's and the client's", len(blocks))
	}
	const module = "github.com/mcpe-gen/mcpe-gen/runtime/"
	var text strings.Builder
	text.WriteString("package main\n\nimport (\n")
	for _, path := range []string{"context", "fmt", "log", "net/http", "time", "github.com/modelcontextprotocol/go-sdk/mcp",
		module + "client", module + "events", module + "server", module + "transport", "example.com/demo/internal/notes",
		"example.com/demo/internal/notes/notesclient", "example.com/demo/internal/notes/notesserver"} {
		fmt.Fprintf(&text, "\t%q\n", path)
	}
	text.WriteString(")\n\nvar _, _ = readme0, readme1\n")
	for i, block := range blocks {
		fmt.Fprintf(&text, "\nfunc readme%d(ctx context.Context, srv *mcp.Server) error {\n%sreturn nil\n}\n", i, block[1])
	}
	if err := os.WriteFile(filepath.Join(dir, "readme.go"), []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

func goRun(t *testing.T, dir string, args ...string) {
	t.Helper()
	succeed(t, dir, "go", args...)
}

// goFlags are for builds in directories that are thrown away. Without the names of directories in them the next run
// finds in the cache what this one compiled; without debug information linking takes less time. Flags that are set
// already stay.
func goFlags() string { return "GOFLAGS=" + os.Getenv("GOFLAGS") + " -mod=mod -trimpath -ldflags=-w" }

// succeed runs a program that must succeed, and gives what it says.
func succeed(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), goFlags(), "GOPROXY=off", "GOWORK=off", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serveStdio receives a sample note from the server over its standard input and output, and expects
// that SIGTERM ends it well while the client is still there.
func serveStdio(t *testing.T, program string, env []string, flags ...string) {
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-every", "100ms"}, flags...)...)
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := receive(t, &mcp.IOTransport{Reader: stdout, Writer: stdin}, `{"author": "sample"}`, func() {})
	terminate(t, cmd, &stderr)
	c.Close()
}

// receive subscribes to note.added, lets emit happen and waits for one note.
func receive(t *testing.T, to mcp.Transport, args string, emit func()) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	c, err := client.Connect(ctx, to, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := client.Subscribe(ctx, c, client.Dynamic("note.added"), json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	emit()
	for ev, err := range sub.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(ev.Raw, []byte(`"author"`)) {
			t.Errorf("received %s", ev.Raw)
		}
		return c
	}
	t.Fatalf("the subscription ended without an event: %v", ctx.Err())
	return nil
}

// terminate sends SIGTERM and expects exit code 0.
func terminate(t *testing.T, cmd *exec.Cmd, stderr interface{ String() string }) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("after SIGTERM: %v\n%s", err, stderr)
		}
	case <-time.After(time.Minute):
		t.Errorf("still running a minute after SIGTERM\n%s", stderr)
		cmd.Process.Kill()
		<-done
	}
}

// bearer is a RoundTripper that sends a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
