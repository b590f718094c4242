package gen_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// roundTrips are documents that generated types must read and write back, and the packages of the
// types.
type roundTrips struct {
	dir       string
	requests  []gen.Request
	documents []document
	// lost takes what a type does not hold; nil makes it a failure.
	lost func(d document, why string)
}

// A document belongs to a type, package and name. The members that names reports must not be lost.
type document struct {
	label, typ string
	data       json.RawMessage
	names      func(member string) bool
}

// program decodes lines of type and document and writes back what the type makes of them.
const program = `package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"

%s)

var types = map[string]reflect.Type{
%s}

func trip(t reflect.Type, data []byte) ([]byte, error) {
	v := reflect.New(t)
	if err := json.Unmarshal(data, v.Interface()); err != nil {
		return nil, err
	}
	return json.Marshal(v.Elem().Interface())
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		name, data, _ := bytes.Cut(line, []byte{' '})
		result, err := trip(types[string(name)], data)
		if err != nil {
			result, _ = json.Marshal(err.Error())
			out.WriteByte('!')
		}
		out.Write(result)
		out.WriteByte('\n')
	}
}
`

// run generates the packages, builds one program with them and puts every document through its type.
func (r *roundTrips) run(t *testing.T) {
	t.Helper()
	consumerModule(t, r.dir)
	var imports, table strings.Builder
	for _, request := range r.requests {
		p, diags, err := gen.Generate(t.Context(), request)
		if err != nil || p == nil {
			t.Fatal(diagnosticText(diags), err)
		}
		if err := p.Apply(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&imports, "\t%q\n", "example.com/m/"+request.Out)
	}
	seen := map[string]bool{}
	for _, d := range r.documents {
		if !seen[d.typ] {
			seen[d.typ] = true
			fmt.Fprintf(&table, "\t%q: reflect.TypeFor[%s](),\n", d.typ, d.typ)
		}
	}
	write(t, r.dir, "cmd/main.go", fmt.Sprintf(program, imports.String(), table.String()))
	// Without the directory in the result, the build cache has it at the next run.
	build := exec.Command("go", "build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-gcflags=example.com/m/...=-N -l", "-o", "prog", "./cmd")
	build.Dir = r.dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the generated code does not compile: %v\n%s", err, out)
	}
	var in bytes.Buffer
	for _, d := range r.documents {
		var line bytes.Buffer
		if err := json.Compact(&line, d.data); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "%s %s\n", d.typ, line.Bytes())
	}
	run := exec.Command(filepath.Join(r.dir, "prog"))
	run.Stdin, run.Stderr = &in, os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for _, d := range r.documents {
		if !lines.Scan() {
			t.Fatal("the program wrote too few lines")
		}
		got := lines.Text()
		why := ""
		if message, failed := strings.CutPrefix(got, "!"); failed {
			why = "the Go type does not hold it: " + message
		} else if at := difference(decode(t, d.data), decode(t, []byte(got)), d.names, ""); at != "" {
			why = "the Go type writes it as " + got + ": " + at
		}
		switch {
		case why == "":
		case r.lost != nil:
			r.lost(d, why)
		default:
			t.Errorf("%s: %s of %.300s: %s", d.label, d.typ, d.data, why)
		}
	}
	t.Logf("%d documents went through %d types of %d packages", len(r.documents), len(seen), len(r.requests))
}

func decode(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

// difference says where two values differ, numbers compared by value and members aside that the
// schema does not name; empty when they do not.
func difference(want, got any, names func(string) bool, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at + " is no object any more"
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				return at + "/" + k + " was not there"
			}
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			v := w[k]
			gv, ok := g[k]
			if !ok {
				if names(k) {
					return at + "/" + k + " is lost"
				}
				continue
			}
			if d := difference(v, gv, names, at+"/"+k); d != "" {
				return d
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return at + " has other elements"
		}
		for i := range w {
			if d := difference(w[i], g[i], names, fmt.Sprintf("%s/%d", at, i)); d != "" {
				return d
			}
		}
	case json.Number:
		g, ok := got.(json.Number)
		x, _ := eventsimpl.Literal([]byte(w))
		y, _ := eventsimpl.Literal([]byte(g))
		if !ok || x != y {
			return fmt.Sprintf("%s is %s", at, got)
		}
	default:
		if want != got {
			return fmt.Sprintf("%s is %v", at, got)
		}
	}
	return ""
}
