package gen_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const oneEvent = `version: 1
events:
  - name: NAME
    description: Something happened.
    inputSchema: {type: object}
    payloadSchema: {type: object, properties: {id: {type: string}}}
`

func eventFile(name string) string { return strings.ReplaceAll(oneEvent, "NAME", name) }

// module makes a module in a temporary directory with the given files.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/m\n\ngo 1.26\n")
	for name, content := range files {
		write(t, dir, name, content)
	}
	return dir
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func plan(t *testing.T, r gen.Request) *gen.Plan {
	t.Helper()
	p, diags, err := gen.Generate(t.Context(), r)
	if err != nil || p == nil {
		t.Fatalf("Generate: %v %v", diags, err)
	}
	return p
}

// apply generates and returns what the run did, as "+created ~updated -deleted".
func apply(t *testing.T, r gen.Request) string {
	t.Helper()
	p := plan(t, r)
	if err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	if again := plan(t, r); !again.Clean() {
		t.Errorf("a second run is not clean: %s", changes(again))
	}
	return changes(p)
}

func changes(p *gen.Plan) string {
	var words []string
	for _, l := range []struct {
		mark  string
		files []gen.File
	}{{"+", p.Create}, {"~", p.Update}, {"-", p.Delete}} {
		for _, f := range l.files {
			words = append(words, l.mark+filepath.ToSlash(f.Path))
		}
	}
	return strings.Join(words, " ")
}

func wantUsage(t *testing.T, r gen.Request, text string) {
	t.Helper()
	p, diags, err := gen.Generate(t.Context(), r)
	var u *gen.UsageError
	if !errors.As(err, &u) || !strings.Contains(u.Message, text) || p != nil {
		t.Errorf("got plan %v, diagnostics %v, error %v; want a usage error with %q", p, diags, err, text)
	}
}

func TestPlanCreatesUpdatesDeletes(t *testing.T) {
	dir := module(t, map[string]string{"events/a.yaml": eventFile("a.x"), "events/b.yaml": eventFile("b.x")})
	r := gen.Request{Dir: dir, Files: []string{"events/a.yaml", "events/b.yaml"}, Out: "out", Emit: []string{"server", "tools"}}
	if got, want := apply(t, r), "+out/a.mcpe.go +out/b.mcpe.go +out/mcpe.go +out/outserver/a.mcpe.go +out/outserver/b.mcpe.go +out/outserver/mcpe.go +out/outserver/mcpe.schemas.json +out/outserver/tools.json"; got != want {
		t.Errorf("first run: %s, want %s", got, want)
	}
	before, err := os.Stat(filepath.Join(dir, "out/a.mcpe.go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "out/a.mcpe.go"), time.Time{}, before.ModTime().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "events/b.yaml", eventFile("b.y"))
	if got, want := apply(t, r), "~out/b.mcpe.go ~out/mcpe.go ~out/outserver/b.mcpe.go ~out/outserver/mcpe.go ~out/outserver/mcpe.schemas.json ~out/outserver/tools.json"; got != want {
		t.Errorf("changed event: %s, want %s", got, want)
	}
	after, err := os.Stat(filepath.Join(dir, "out/a.mcpe.go"))
	if err != nil || !after.ModTime().Before(before.ModTime()) {
		t.Errorf("an unchanged file was touched: %v %v", after.ModTime(), err)
	}

	r.Files = r.Files[:1]
	wantUsage(t, r, "pass all event files of package out")
	if err := os.Remove(filepath.Join(dir, "events/b.yaml")); err != nil {
		t.Fatal(err)
	}
	if got, want := apply(t, r), "~out/mcpe.go ~out/outserver/mcpe.go ~out/outserver/mcpe.schemas.json ~out/outserver/tools.json -out/b.mcpe.go -out/outserver/b.mcpe.go"; got != want {
		t.Errorf("orphan: %s, want %s", got, want)
	}
	r.Emit = []string{"server"}
	if got, want := apply(t, r), "~out/outserver/mcpe.go -out/outserver/tools.json"; got != want {
		t.Errorf("without tools: %s, want %s", got, want)
	}
	r.Emit = []string{"client"}
	if got, want := apply(t, r), "+out/outclient/a.mcpe.go +out/outclient/mcpe.go ~out/mcpe.go"; got != want {
		t.Errorf("a client alone: %s, want %s", got, want)
	}
}

// The packages for servers and clients go where the request says, each in its module; the base names of the directories
// name them. A package of shared schemas has neither.
func TestPlaces(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x"), "common.yaml": "version: 1\nschemas: {ID: {type: string}}\n", "sdk/go.mod": "module example.com/sdk\n"})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "api/notes", ServerOut: "internal/serve", ClientOut: "sdk/listen"}
	if got, want := apply(t, r), "+api/notes/a.mcpe.go +api/notes/mcpe.go +internal/serve/a.mcpe.go +internal/serve/mcpe.go +internal/serve/mcpe.schemas.json +internal/serve/tools.json +sdk/listen/a.mcpe.go +sdk/listen/mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for file, want := range map[string]string{"internal/serve/a.mcpe.go": "package serve", "sdk/listen/a.mcpe.go": "package listen"} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(content), "\n"+want+"\n") || !strings.Contains(string(content), "\"example.com/m/api/notes\"\n") {
			t.Errorf("%s: %v\n%s", file, err, content)
		}
	}
	r.ClientOut = "not-a-package"
	wantUsage(t, r, "the name of directory not-a-package is not a valid Go package name")
	if got, want := apply(t, gen.Request{Dir: dir, Files: []string{"common.yaml"}, Out: "common"}), "+common/common.mcpe.go +common/mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The single package that an earlier version wrote becomes the types' package.
func TestPlanMovesFromOnePackage(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x")})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out", Emit: []string{"server", "tools"}}
	p := plan(t, r)
	for _, f := range p.Create {
		write(t, dir, filepath.Join("out", filepath.Base(f.Path)), string(f.Content)) // mcpe.go of the server comes last
	}
	want := "+out/outserver/a.mcpe.go +out/outserver/mcpe.go +out/outserver/mcpe.schemas.json +out/outserver/tools.json ~out/a.mcpe.go ~out/mcpe.go -out/mcpe.schemas.json -out/tools.json"
	if got := apply(t, r); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A renamed stem leaves an orphan whose source is in this run.
func TestPlanDeletesOrphanOfThisRun(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x")})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out"}
	apply(t, r)
	content, err := os.ReadFile(filepath.Join(dir, "out/a.mcpe.go"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "out/old.mcpe.go", string(content))
	if got, want := apply(t, r), "-out/old.mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPlanKeepsForeignFiles(t *testing.T) {
	dir := module(t, map[string]string{
		"a.yaml":                   eventFile("a.x"),
		"out/own.go":               "package out\n",
		"out/tools.json":           "[]\n", // the server's package has it, and not this one
		"one/a.mcpe.go":            "package one\n",
		"two/twoserver/tools.json": "[]\n",
		// a file of somebody else, though it has the name
		"three/threeserver/mcpe.schemas.json": "{}\n",
		"four/fourclient/a.mcpe.go":           "package fourclient\n",
		"note/noteserver/tools.json":          "[]\n", "note/noteserver/mcpe.go": "// Code generated by mcpe-gen. DO NOT EDIT.\n// Source: a.yaml\n\npackage noteserver\n",
	})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out"}
	if got, want := apply(t, r), "+out/a.mcpe.go +out/mcpe.go +out/outclient/a.mcpe.go +out/outclient/mcpe.go +out/outserver/a.mcpe.go +out/outserver/mcpe.go +out/outserver/mcpe.schemas.json +out/outserver/tools.json"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, out := range []string{"one", "two", "three", "four", "note"} {
		r.Out = out
		wantUsage(t, r, "was not generated by mcpe-gen")
	}
	r.Emit = []string{"server"}
	r.Out = "note"
	if got, want := apply(t, r), "+note/a.mcpe.go +note/mcpe.go +note/noteserver/a.mcpe.go +note/noteserver/mcpe.schemas.json ~note/noteserver/mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Nothing is written when the event files have errors or writing fails half way.
func TestNothingWrittenOnError(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x"), "bad.yaml": "version: 1\nevents: [{}]\n", "blocked": "a file"})
	p, diags, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"a.yaml", "bad.yaml"}, Out: "out"})
	if p != nil || err != nil || !source.HasErrors(diags) {
		t.Errorf("got %v %v %v", p, diags, err)
	}
	good := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out", Emit: []string{"types"}}
	apply(t, good)
	write(t, dir, "a.yaml", eventFile("a.y"))
	good.Emit = nil
	p = plan(t, good)
	write(t, dir, "out/outserver/tools.json/in/the/way", "")
	if err := p.Apply(); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if err := os.RemoveAll(filepath.Join(dir, "out/outserver/tools.json")); err != nil {
		t.Fatal(err)
	}
	if left := readTree(t, filepath.Join(dir, "out")); len(left) != 2 {
		t.Errorf("out has %d files, want the two of before", len(left))
	}
	if content, err := os.ReadFile(filepath.Join(dir, "out/a.mcpe.go")); err != nil || !strings.Contains(string(content), "of a.x.") {
		t.Errorf("a.mcpe.go is not what it was before: %s %v", content, err)
	}
	_, _, err = gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "blocked"})
	var u *gen.UsageError
	if err == nil || errors.As(err, &u) {
		t.Errorf("an output directory that is a file: %v", err)
	}
}

func TestUsageErrors(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x")})
	ok := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out"}
	for text, change := range map[string]func(*gen.Request){
		"no event file":           func(r *gen.Request) { r.Files = nil },
		"no output directory":     func(r *gen.Request) { r.Out = "" },
		`unknown value "servers"`: func(r *gen.Request) { r.Emit = []string{"servers"} },
		`"my-pkg" cannot name`:    func(r *gen.Request) { r.Package = "my-pkg" },
		"main cannot be imported": func(r *gen.Request) { r.Package = "main" },
		"pass --package":          func(r *gen.Request) { r.Out = "my-out" },
		"the Go type of format x": func(r *gen.Request) { r.Types = map[string]string{"x": "any"} },
	} {
		r := ok
		change(&r)
		wantUsage(t, r, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := gen.Generate(ctx, ok); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
}

func TestPackageName(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x"), "b.yaml": "package: named\n" + eventFile("b.x")})
	for want, r := range map[string]gen.Request{
		"fromdir": {Files: []string{"a.yaml"}, Out: "fromdir"},
		"named":   {Files: []string{"b.yaml"}, Out: "fromdir"},
		"asked":   {Files: []string{"b.yaml"}, Out: "fromdir", Package: "asked"},
	} {
		r.Dir = dir
		for _, f := range plan(t, r).Create {
			of := want
			if dir := filepath.Base(filepath.Dir(f.Path)); dir != "fromdir" {
				of = dir
			}
			if !strings.HasPrefix(of, want) || strings.HasSuffix(f.Path, ".go") && !strings.Contains(string(f.Content), "\npackage "+of+"\n") {
				t.Errorf("%s is not of package %s", f.Path, of)
			}
		}
	}
}

// Headers name sources relative to the module that holds the output, else relative to the output;
// no absolute path, time or version gets into a file.
func TestSourceLines(t *testing.T) {
	dir := module(t, map[string]string{"api/events/a.yaml": eventFile("a.x"), "inner/go.mod": "module example.com/inner\n"})
	bare := t.TempDir()
	write(t, bare, "a.yaml", eventFile("a.x"))
	for _, c := range []struct{ dir, file, out, want string }{
		{dir, "api/events/a.yaml", "internal/x", "api/events/a.yaml"},
		{dir, "api/events/a.yaml", "inner/x", "../api/events/a.yaml"},
		{filepath.Join(dir, "api"), "events/a.yaml", "../x", "api/events/a.yaml"},
		{bare, "a.yaml", "deep/x", "../../a.yaml"},
	} {
		r := gen.Request{Dir: c.dir, Files: []string{c.file}, Out: c.out, Package: "x"}
		if c.dir == bare {
			wantUsage(t, r, "package xserver imports package x, but deep/x is not in a Go module")
			r.Emit = []string{"types"}
		}
		for _, f := range plan(t, r).Create {
			if !strings.HasSuffix(f.Path, ".go") {
				continue
			}
			lines := strings.SplitN(string(f.Content), "\n", 4)
			if lines[0] != "// Code generated by mcpe-gen. DO NOT EDIT." || lines[1] != "// Source: "+c.want || lines[2] != "" {
				t.Errorf("%s begins with %q, want the source %s", f.Path, lines[:3], c.want)
			}
			if strings.Contains(string(f.Content), c.dir) {
				t.Errorf("%s holds the path of this machine", f.Path)
			}
		}
	}
}

// A file that only a $ref reaches gets its own output once, and belongs to the package from then on.
func TestReferredFile(t *testing.T) {
	dir := module(t, map[string]string{
		"common.yaml": "version: 1\nschemas: {ID: {type: string}}\n",
		"a.yaml":      strings.ReplaceAll(eventFile("a.x"), "id: {type: string}", "id: {$ref: 'common.yaml#/schemas/ID'}"),
	})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out", Emit: []string{"client"}}
	if got, want := apply(t, r), "+out/a.mcpe.go +out/common.mcpe.go +out/mcpe.go +out/outclient/a.mcpe.go +out/outclient/mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Files = []string{"common.yaml", "a.yaml"}
	if got := apply(t, r); got != "" && got != "~out/mcpe.go ~out/outclient/mcpe.go" {
		t.Errorf("giving the file too changes %s", got)
	}
	r.Files = []string{"common.yaml"}
	wantUsage(t, r, "out/a.mcpe.go was generated from a.yaml, which is not part of this run")
}

func TestMerge(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x")})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "one", Emit: []string{"client"}}
	one := plan(t, r)
	r.Out = "two"
	two := plan(t, r)
	all, err := gen.Merge(two, one)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := changes(all), "+one/a.mcpe.go +one/mcpe.go +one/oneclient/a.mcpe.go +one/oneclient/mcpe.go +two/a.mcpe.go +two/mcpe.go +two/twoclient/a.mcpe.go +two/twoclient/mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := all.Apply(); err != nil {
		t.Fatal(err)
	}
	if p := plan(t, r); !p.Clean() {
		t.Errorf("two is not clean: %s", changes(p))
	}
}

// Two packages do not write to one directory, whichever names it.
func TestWrittenTwice(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x"), "b.yaml": eventFile("b.x")})
	wantUsage(t, gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "notes", ServerOut: "x/notes", ClientOut: "./x/notes"}, "x/notes/a.mcpe.go is written twice")
	one := plan(t, gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "notes"})
	two := plan(t, gen.Request{Dir: dir, Files: []string{"b.yaml"}, Out: "notes/notesserver"})
	var u *gen.UsageError
	if p, err := gen.Merge(one, two); p != nil || !errors.As(err, &u) || !strings.Contains(u.Message, "notes/notesserver/mcpe.go is written twice") {
		t.Errorf("got %v, error %v", p, err)
	}
}

// Generated files that git has checked out with CRLF are current, orphans among them are found, and what
// has really changed is written.
func TestPlanOfCRLF(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": eventFile("a.x"), "b.yaml": eventFile("b.x")})
	r := gen.Request{Dir: dir, Files: []string{"a.yaml", "b.yaml"}, Out: "out", Emit: []string{"server", "tools"}}
	apply(t, r)
	files := readTree(t, filepath.Join(dir, "out"))
	for name, content := range files {
		write(t, filepath.Join(dir, "out"), name, strings.ReplaceAll(content, "\n", "\r\n"))
	}
	if p := plan(t, r); !p.Clean() || len(files) != 8 || len(p.Unchanged) != 8 {
		t.Errorf("a checkout with CRLF is not current: %v", p)
	}
	write(t, dir, "a.yaml", eventFile("a.y"))
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	r.Files = r.Files[:1]
	if got, want := apply(t, r), "~out/a.mcpe.go ~out/mcpe.go ~out/outserver/a.mcpe.go ~out/outserver/mcpe.go ~out/outserver/mcpe.schemas.json ~out/outserver/tools.json -out/b.mcpe.go -out/outserver/b.mcpe.go"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
