package public

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt/adopttest"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// A module is a copy of a published one, in which init is run.
type module struct {
	t   *testing.T
	dir string
}

// run runs a command in the module and gives its standard output.
func (m *module) run(name string, args ...string) []byte {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if err := cmd.Run(); err != nil {
		m.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return stdout.Bytes()
}

// edit replaces what is in a file once.
func (m *module) edit(name string, pairs ...string) {
	m.t.Helper()
	name = filepath.Join(m.dir, filepath.FromSlash(name))
	data, err := os.ReadFile(name)
	if err != nil {
		m.t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(text, pairs[i]) != 1 {
			m.t.Fatalf("%s does not have %q once", name, pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		m.t.Fatal(err)
	}
}

// checkout is the directory of this checkout.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// published copies a directory of a module, at the version of go.mod.
func published(t *testing.T, path, below string) *module {
	t.Helper()
	here := &module{t, "."}
	from := strings.TrimSpace(string(here.run("go", "list", "-m", "-f", "{{.Dir}}", path)))
	if from == "" {
		t.Fatalf("%s is not on this machine: go mod download fetches it", path)
	}
	m := &module{t, filepath.Join(t.TempDir(), "module")}
	if err := os.CopyFS(m.dir, os.DirFS(filepath.Join(from, filepath.FromSlash(below)))); err != nil {
		t.Fatal(err)
	}
	// The module cache is not writable, and neither is its copy.
	err := filepath.WalkDir(m.dir, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(name, 0o777)
		}
		return os.Chmod(name, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// init runs init and gives the edits that it prints.
func (m *module) init() []adopttest.Edit {
	m.t.Helper()
	command := filepath.Join(m.t.TempDir(), "mcpe-gen.exe")
	root := &module{m.t, checkout(m.t)}
	root.run("go", "build", "-o", command, "./cmd/mcpe-gen")
	return adopttest.Parse(m.t, m.run(command, "init", "--format", "json", "--replace", root.dir))
}

// addImports adds imports to a file, and those that the author's part needs.
func (m *module) addImports(name string, specs ...string) {
	m.t.Helper()
	adopttest.AddImports(m.t, filepath.Join(m.dir, filepath.FromSlash(name)), append(specs, `"github.com/mcpe-gen/mcpe-gen/runtime/events"`, `"time"`))
}

// receive subscribes, acts on the same connection, and expects the text in the event.
func receive(t *testing.T, to mcp.Transport, act func(*mcp.ClientSession), want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, to, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := client.Subscribe(ctx, c, client.Dynamic("note.added"), json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	act(c.Session())
	for ev, err := range sub.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(ev.Raw), want) {
			t.Errorf("received %s, want %s", ev.Raw, want)
		}
		return
	}
	t.Fatalf("no event: %v", ctx.Err())
}

// The memory server of the SDK, with the edits of init: what its tool adds to the graph arrives as an event.
func TestMemory(t *testing.T) {
	m := published(t, "github.com/modelcontextprotocol/go-sdk", "examples/server/memory")
	m.run("go", "mod", "init", "example.com/memory")
	edits := m.init()
	for _, e := range edits {
		if e.Line == 0 || e.Note != "" {
			t.Errorf("init leaves to a person: %+v", e)
		}
	}
	adopttest.Apply(t, m.dir, edits)
	m.edit("main.go", "	_ = noteAdded // noteAdded.Emit tells every subscriber\n", "",
		"	}, kb.CreateEntities)", `	}, func(ctx context.Context, req *mcp.CallToolRequest, in CreateEntitiesArgs) (*mcp.CallToolResult, CreateEntitiesResult, error) {
		res, out, err := kb.CreateEntities(ctx, req, in)
		if err != nil {
			return res, out, err
		}
		for _, e := range out.Entities {
			note := notes.NoteAddedPayload{ID: e.Name, Author: notes.Author{Name: e.EntityType}, Text: e.Name, AddedAt: events.NewTime(time.Now())}
			if err := noteAdded.Emit(ctx, note); err != nil {
				return res, out, err
			}
		}
		return res, out, nil
	})`)
	m.addImports("main.go", `"example.com/memory/internal/notes"`)
	m.run("go", "mod", "tidy")
	m.run("go", "build", "-o", "memory.exe", ".")

	receive(t, &mcp.CommandTransport{Command: exec.CommandContext(t.Context(), filepath.Join(m.dir, "memory.exe"))}, func(session *mcp.ClientSession) {
		args := map[string]any{"entities": []map[string]any{{"name": "Ada", "entityType": "person", "observations": []string{"first"}}}}
		if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_entities", Arguments: args}); err != nil || res.IsError {
			t.Errorf("%+v %v", res, err)
		}
	}, `"Ada"`)
}

// gopls makes a server for each connection by SSE, for which init has a note, and runs one on stdio, which gets the
// lines that init prints. What its tools are asked for arrives as events on the same connection.
func TestGopls(t *testing.T) {
	m := published(t, "golang.org/x/tools/gopls", "")
	// gopls imports internals of x/tools, which fit at one version only; adopting would take a newer one.
	// docs/adopting.md, What init does, says to keep it by a replace line.
	tools := strings.TrimSpace(string(m.run("go", "list", "-m", "-f", "{{.Version}}", "golang.org/x/tools")))
	m.run("go", "mod", "edit", "-replace=golang.org/x/tools=golang.org/x/tools@"+tools)
	isRefused, runs := false, 0
	edits := m.init()
	for _, e := range edits {
		isRefused = isRefused || strings.Contains(e.Note, "Events cannot be added to HTTP+SSE")
		if strings.Contains(e.Replace, "s.Run(") {
			runs++
		}
		if e.Line == 0 {
			t.Errorf("init leaves to a person: %+v", e)
		}
	}
	if !isRefused || runs != 2 {
		t.Fatalf("init: refused %v, edits %+v", isRefused, edits)
	}
	adopttest.Apply(t, m.dir, edits)
	// The author's part: every call of a tool is told.
	m.edit("internal/mcp/mcp.go", "	_ = noteAdded // noteAdded.Emit tells every subscriber\n", `	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if call, ok := req.(*mcp.CallToolRequest); ok && err == nil {
				err = noteAdded.Emit(ctx, notes.NoteAddedPayload{ID: call.Params.Name, Author: notes.Author{Name: "gopls"}, Text: call.Params.Name, AddedAt: events.NewTime(time.Now())})
			}
			return res, err
		}
	})
`)
	m.addImports("internal/mcp/mcp.go", `"golang.org/x/tools/gopls/internal/notes"`)
	m.run("go", "mod", "tidy")
	m.run("go", "build", "-o", "gopls.exe", ".")

	work := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/x\n\ngo 1.26.0\n", "x.go": "package x\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.dir, "gopls.exe"), "mcp")
	cmd.Dir = work
	receive(t, &mcp.CommandTransport{Command: cmd}, func(session *mcp.ClientSession) {
		if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "go_workspace", Arguments: map[string]any{}}); err != nil || res.IsError {
			t.Errorf("%+v %v", res, err)
		}
	}, `"go_workspace"`)
}

// Servers of mcp-go with the structure of public ones, with the edits of init: their events arrive next to what they
// had.
func TestMCPGo(t *testing.T) {
	for _, name := range []string{"grafana", "terraform"} {
		t.Run(name, func(t *testing.T) {
			m := &module{t, filepath.Join(t.TempDir(), "module")}
			if err := os.CopyFS(m.dir, os.DirFS("../../../testdata/adopt/"+name)); err != nil {
				t.Fatal(err)
			}
			edits := m.init()
			adopttest.Apply(t, m.dir, edits)
			adopttest.Emit(t, m.dir, edits)
			m.run("go", "mod", "tidy")
			m.run("go", "build", "-o", "server.exe", ".")
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := free.Addr().String()
			free.Close()
			cmd := exec.CommandContext(t.Context(), filepath.Join(m.dir, "server.exe"), "-http", addr)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			for started := time.Now(); ; time.Sleep(50 * time.Millisecond) {
				if conn, err := net.Dial("tcp", addr); err == nil {
					conn.Close()
					break
				}
				if time.Since(started) > time.Minute {
					t.Fatalf("nothing listens on %s", addr)
				}
			}
			receive(t, client.HTTP("http://"+addr+"/mcp", nil), func(session *mcp.ClientSession) {
				if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ping"}); err != nil || res.IsError {
					t.Errorf("%+v %v", res, err)
				}
			}, `"hello"`)
		})
	}
}
