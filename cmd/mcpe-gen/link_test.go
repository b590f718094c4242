package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
)

// maxSize is the largest size of the stripped command in bytes; the bridge for several windows and its installation
// take 0.5 MB of it. The released one, without cgo and paths, has 150 KB less.
const maxSize = 28_950_000

// unlinked are the beginnings of the paths of packages that a command does not link, as users of the module require
// them too: the drivers of databases, which mcpe-ops has.
var unlinked = map[string][]string{
	".":               {"github.com/jackc/", "modernc.org/", "github.com/nats-io/"},
	"../mcpe-conform": {"github.com/jackc/", "modernc.org/", "github.com/nats-io/", "github.com/dave/jennifer", "golang.org/x/tools"},
	"../mcpe-ops":     {"github.com/nats-io/", "github.com/dave/jennifer", "golang.org/x/tools", "github.com/modelcontextprotocol/go-sdk"},
}

// TestLinks lists the packages of each command.
func TestLinks(t *testing.T) {
	t.Parallel()
	for dir, prefixes := range unlinked {
		imports := importsOf(t, ".", dir)
		if len(imports) < 100 {
			t.Errorf("%s has %d packages", dir, len(imports))
		}
		for path := range imports {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) }) {
				t.Errorf("%s links %s: %s", dir, path, strings.Join(chain(imports, path), " imports "))
			}
		}
	}
	if got := strings.Join(chain(importGraph{"a": {Imports: []string{"b"}}, "b": {Imports: []string{"c"}}, "c": {}}, "c"), " "); got != "a b c" {
		t.Errorf("the chain to c is %q", got)
	}
}

// chain returns the packages by which one is linked, from the command to path, each importing the next.
func chain(imports importGraph, path string) []string {
	by := []string{path}
	for {
		found := false
		for importer, p := range imports {
			if slices.Contains(p.Imports, by[0]) && !slices.Contains(by, importer) {
				by, found = slices.Insert(by, 0, importer), true
				break
			}
		}
		if !found {
			return by
		}
	}
}

// TestSize links the command stripped.
func TestSize(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds the command")
	}
	program := filepath.Join(t.TempDir(), "mcpe-gen")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes", info.Size()); info.Size() > maxSize {
		t.Errorf("mcpe-gen has %d bytes, more than %d: go tool nm -size -sort size, of a build without -s -w, says what they are", info.Size(), maxSize)
	}
}

const (
	ours   = "github.com/mcpe-gen/mcpe-gen"
	public = ours + "/runtime/"
	// scaffoldModule is the module that init writes in these tests.
	scaffoldModule = "example.com/demo"
)

// unused are the packages that a server without options does not link.
var unused = []string{"internal/cluster/cluster", "internal/cluster/orders", "internal/cluster/shard", "internal/operators/operate",
	"internal/webhooks/delivery", "internal/webhooks/netguard", "internal/webhooks/subscriber", "internal/webhooks/verify",
	"admin", "conversation", "ingress", "mcpc", "mcpe", "oauth", "otelevents", "overlay", "store/sqlite", "store/postgres"}

// linkedBy are servers that init writes, with the most that each may link. Packages and lines are ours. A size is that of
// the stripped binary.
var linkedBy = []struct {
	name, flags              string
	packages, lines, modules int
	size                     int64
	absent                   []string // below runtime
}{
	{"none", "", 44, 25_000, 16, 11_500_000, unused},
	{"webhooks", "--transport http --webhooks", 61, 41_800, 16, 14_200_000, []string{"admin", "oauth", "otelevents", "store/sqlite", "store/postgres"}},
	{"sqlite", "--store sqlite", 50, 29_600, 23, 16_200_000, []string{"internal/webhooks/delivery", "internal/operators/operate", "internal/cluster/cluster", "otelevents"}},
	{"postgres", "--transport http --store postgres", 66, 46_200, 21, 18_800_000, []string{"admin", "oauth", "otelevents", "store/sqlite"}},
	{"all", "--transport http --store postgres --webhooks --auth oauth --console", 72, 49_600, 21, 22_600_000, []string{"otelevents", "store/sqlite"}},
}

// linkedParts are the rows of the page: what an author sets or calls for something, and the package of it.
var linkedParts = [][3]string{
	{"[webhooks](webhooks.md)", "`Options.Webhooks: webhooks.New(…)`", "server/webhooks"},
	{"processes that share a store", "`Options.Replicas: replicas.New(…)`", "server/replicas"},
	{"what operators do: `Server.Admin`", "`Options.Operators: operators.New()`", "server/operators"},
	{"[the console and its API](operating.md)", "`admin.NewHandler`", "admin"},
	{"events that survive restarts, [in a file](one-process.md)", "`Options.Store: sqlite.Open(…)`", "store/sqlite"},
	{"the same, [in PostgreSQL](postgres.md)", "`Options.Store: postgres.Open(…)` and Replicas", "store/postgres"},
	{"[metrics and traces](observability.md)", "`Options.Telemetry: otelevents.New(…)`", "otelevents"},
	{"[webhooks of services](ingress.md) as events", "the generated ingress", "ingress"},
	{"the metadata of [OAuth](oauth.md)", "`oauth.New`", "oauth"},
	{"[an outbox](outbox.md) in another database", "`Options.Outbox: box.Relay(…)`", "outbox/pgoutbox"},
	{"[events next to another server](overlay.md)", "`overlay.NewHandler`", "overlay"},
	{"[MCPE](mcpe.md)", "`mcpe.New`", "mcpe"},
	{"[MCPC](mcpc.md)", "`mcpc.New`", "mcpc"},
	{"[conversation events](conversation.md)", "`conversation.Register`", "conversation"},
}

// listener is a client of the events of [scaffold].
const listener = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"example.com/demo/internal/notes"
	"example.com/demo/internal/notes/notesclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx := context.Background()
	c, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1]}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sub, err := notesclient.SubscribeNoteAdded(ctx, c, notes.NoteAddedArguments{})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range sub.Events() {
		fmt.Println(ev, err)
	}
}
`

// TestLinkedClient measures what a client links, without any server.
func TestLinkedClient(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds a client")
	}
	dir := scaffold(t)
	write(t, dir, map[string]string{"listen/main.go": listener})
	linked, modules := importsOf(t, dir, "./listen").closure(scaffoldModule + "/listen")
	lines, size := countLines(t, linked), buildStripped(t, dir, "./listen")
	t.Logf("%d packages, %d lines, %d modules, %d bytes", len(linked), lines, modules, size)
	if len(linked) > 18 || lines > 12_000 || modules > 12 || size > 11_000_000 {
		t.Error("want at most 18 packages, 12,000 lines, 12 modules, 11,000,000 bytes")
	}
	for _, name := range append([]string{"internal/feed", "internal/streaming", "readtool", "server", "store/memory", "transport"}, unused...) {
		if _, ok := linked[public+name]; ok {
			t.Errorf("%s is linked", name)
		}
	}
}

// buildStripped builds server.exe in dir and returns its size without symbols.
func buildStripped(t *testing.T, dir, of string) int64 {
	t.Helper()
	goRun(t, dir, "build", "-ldflags=-s -w", "-o", "server.exe", of)
	info, err := os.Stat(filepath.Join(dir, "server.exe"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestLinked measures what a server links, compares it with the limits, and writes docs/linking.md.
func TestLinked(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	servers := make([]string, len(linkedBy))
	var bare map[string]linkedPackage
	t.Run("servers", func(t *testing.T) {
		for i, c := range linkedBy {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				dir := scaffold(t, strings.Fields(c.flags)...)
				linked, modules := importsOf(t, dir, ".").closure(scaffoldModule)
				lines, size := countLines(t, linked), buildStripped(t, dir, ".")
				t.Logf("%d packages, %d lines, %d modules, %d bytes, starts in %v", len(linked), lines, modules, size, startTime(t, filepath.Join(dir, "server.exe")))
				if len(linked) > c.packages || lines > c.lines || modules > c.modules || size > c.size {
					t.Errorf("want at most %d packages, %d lines, %d modules, %d bytes", c.packages, c.lines, c.modules, c.size)
				}
				for _, name := range append([]string{"client"}, c.absent...) {
					if _, ok := linked[public+name]; ok {
						t.Errorf("%s is linked", name)
					}
				}
				flags := "none"
				if c.flags != "" {
					flags = "`" + c.flags + "`"
				}
				servers[i] = fmt.Sprintf("| %s | %d | %s | %d | %d MB |\n", flags, len(linked), thousands(lines), modules, (size+500_000)/1_000_000)
				if c.flags == "" {
					bare = linked
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	clitest.Current(t, "docs/linking.md", linkingPage(t, bare, servers), *update)
}

// linkingPage returns the page about what a server links.
func linkingPage(t *testing.T, bare map[string]linkedPackage, servers []string) string {
	var page strings.Builder
	page.WriteString(`# Linked packages

A program links only the parts that it sets. The first table says what to set or call for a feature, and what this adds
to a server without options. Lines are those of mcpe-gen's own packages, without comments and empty lines.

## What to set

| To get | Set or call | Import below ` + "`runtime`" + ` | Packages | Lines |
|---|---|---|---|---|
`)
	g := importsOf(t, "../..", "./runtime/...")
	fmt.Fprintf(&page, "| polling, streams, emitters, checks, hooks, read tools | `server.New`, `transport.NewHandler` | `server`, `transport` | %d | %s |\n",
		len(bare), thousands(countLines(t, bare)))
	for _, row := range linkedParts {
		linked, _ := g.closure(public + row[2])
		maps.DeleteFunc(linked, func(path string, _ linkedPackage) bool {
			_, ok := bare[path]
			return ok
		})
		if len(linked) == 0 {
			t.Errorf("%s adds nothing", row[2])
		}
		fmt.Fprintf(&page, "| %s | %s | `%s` | +%d | +%s |\n", row[0], row[1], row[2], len(linked), thousands(countLines(t, linked)))
	}
	client, _ := g.closure(public + "client")
	fmt.Fprintf(&page, `
Webhooks, replicas and operators share most of their packages: each adds little to the others. JetStream is a separate
module. A [client](client.md) links %d packages with %s lines. Its generated code is in a separate package, which
servers do not import.
`, len(client), thousands(countLines(t, client)))
	page.WriteString(`
## Servers that init writes

| Flags of ` + "`mcpe-gen init`" + ` | Packages | Lines | Modules | Stripped program |
|---|---|---|---|---|
` + strings.Join(servers, "") + `
A test measures both tables: ` + "`go test ./cmd/mcpe-gen -run TestLinked`" + `. It fails if a server links more than its limit.
`)
	return page.String()
}

// thousands returns n rounded to hundreds, or to thousands from 10,000 on.
func thousands(n int) string {
	n = (n + 50) / 100 * 100
	switch {
	case n < 1_000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%d,%03d", n/1_000, n%1_000)
	}
	return fmt.Sprintf("%d,000", (n+500)/1_000)
}

// startTime returns the shortest of five times that a program takes to start and print its flags.
func startTime(t *testing.T, program string) time.Duration {
	t.Helper()
	shortest := time.Hour
	for range 5 {
		began := time.Now()
		succeed(t, "", program, "-help")
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}

// A linkedPackage is a package of a build, as go list describes it.
type linkedPackage struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
	Module           *struct{ Path string }
}

// An importGraph has the packages of a build by import path.
type importGraph map[string]linkedPackage

func importsOf(t *testing.T, dir, packages string) importGraph {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Module", packages)
	list.Dir, list.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	g := importGraph{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linkedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			t.Fatal(err)
		}
		g[p.ImportPath] = p
	}
}

// closure returns our packages that the root imports, directly or not, and the number of modules.
func (g importGraph) closure(root string) (linked map[string]linkedPackage, modules int) {
	linked = map[string]linkedPackage{}
	seen, in := map[string]bool{}, map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		p, ok := g[path]
		if !ok || seen[path] {
			return
		}
		seen[path] = true
		if p.Module != nil {
			in[p.Module.Path] = true
			if p.Module.Path == ours {
				linked[path] = p
			}
		}
		for _, other := range p.Imports {
			visit(other)
		}
	}
	visit(root)
	return linked, len(in)
}

// countLines returns the number of lines of the packages that are neither empty nor a comment.
func countLines(t *testing.T, packages map[string]linkedPackage) (n int) {
	t.Helper()
	for _, p := range packages {
		for _, name := range p.GoFiles {
			for line := range strings.Lines(readText(t, filepath.Join(p.Dir, name))) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					n++
				}
			}
		}
	}
	return n
}
