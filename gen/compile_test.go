package gen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// What the compiler makes of one event type more, at most: functions, and symbols of any kind. Both decide
// how long a large package takes. With its types alone an event type has 4 functions and 40 symbols.
const (
	maxEventFunctions = 12
	maxEventSymbols   = 170 // in three packages, with the hook PerPrincipal
)

// TestCompiledSymbols compiles packages of few event types whose payloads differ, as those of people do:
// generic code over payloads themselves, and not over pointers to them, would be compiled for each.
func TestCompiledSymbols(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	imports := output(t, "..", "go", "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}\n{{end}}",
		"./runtime/impl/serverimpl", "./runtime/impl/clientimpl", "./runtime/readtool")
	var lines []string
	for line := range strings.Lines(imports) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	const few, many = 4, 14
	f1, s1 := compiled(t, strings.Join(lines, ""), few)
	f2, s2 := compiled(t, strings.Join(lines, ""), many)
	functions, symbols := float64(f2-f1)/(many-few), float64(s2-s1)/(many-few)
	t.Logf("an event type is compiled to %.1f functions and %.1f symbols", functions, symbols)
	if functions > maxEventFunctions || symbols > maxEventSymbols {
		t.Errorf("an event type is compiled to %.1f functions and %.1f symbols, at most %d and %d are allowed",
			functions, symbols, maxEventFunctions, maxEventSymbols)
	}
	if functions < 4 {
		t.Errorf("%.1f functions: nothing was counted", functions)
	}
}

// compiled counts the functions and symbols of a package of n event types.
func compiled(t *testing.T, imports string, n int) (functions, symbols int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nevents:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: thing%d.made\n    description: Fires when one is made.\n"+
			"    inputSchema: {type: object, properties: {only%d: {type: string}}}\n"+
			"    payloadSchema: {type: object, properties: {id%d: {type: string}, count: {type: integer}}, required: [id%d]}\n", i, i, i, i)
	}
	dir := module(t, map[string]string{"things.yaml": b.String()})
	p, diags, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"things.yaml"}, Out: "out", Package: "things"})
	if err != nil || p == nil {
		t.Fatal(diagnosticText(diags), err)
	}
	if err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	const schemas = "mcpe.schemas.json"
	embed, err := json.Marshal(map[string]any{"Patterns": map[string][]string{schemas: {schemas}},
		"Files": map[string]string{schemas: filepath.Join(dir, "out/thingsserver", schemas)}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "embedcfg", string(embed))
	write(t, dir, "importcfg", imports+"packagefile example.com/m/out=out.a\n")
	for _, part := range []struct{ path, archive string }{{"out", "out.a"}, {"out/thingsserver", "server.a"}, {"out/thingsclient", "client.a"}} {
		args := []string{"tool", "compile", "-o", part.archive, "-p", "example.com/m/" + part.path, "-complete", "-pack", "-importcfg", "importcfg", "-embedcfg", "embedcfg"}
		files, err := filepath.Glob(filepath.Join(dir, part.path, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		output(t, dir, "go", append(args, files...)...)
		for line := range strings.Lines(output(t, dir, "go", "tool", "nm", part.archive)) {
			fields := strings.Fields(line)
			switch { // an address, but not for what is undefined; then the kind
			case len(fields) > 1 && fields[0] == "U":
			case len(fields) > 2 && fields[1] == "T":
				functions++
				fallthrough
			default:
				symbols++
			}
		}
	}
	return functions, symbols
}

// output runs a command in dir and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args[0], err, failed.String())
	}
	return string(out)
}
