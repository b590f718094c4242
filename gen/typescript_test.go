package gen_test

import (
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
	"time"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// typescriptTools names the directory with the packages of testdata/typescript/package.json installed.
const typescriptTools = "MCPE_TEST_TYPESCRIPT"

// A tsProject is a directory of TypeScript that is compiled at once.
type tsProject struct {
	tools, dir string
	sizes      map[string]int
}

// newProject makes an empty project below the installed packages, where the compiler finds them. Where they are not
// installed the test says so.
func newProject(t *testing.T) *tsProject {
	t.Helper()
	tools := os.Getenv(typescriptTools)
	if tools == "" {
		t.Skipf("NOT RUN: %s; `make typescript` installs what it needs and runs it", t.Name())
	}
	p := &tsProject{tools: tools, dir: filepath.Join(tools, "run", t.Name()), sizes: map[string]int{}}
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	p.write(t, "tsconfig.json", []byte(`{
  "compilerOptions": {
    "strict": true, "noEmit": true, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true,
    "target": "es2023", "module": "nodenext", "types": ["node"], "skipLibCheck": true
  },
  "include": ["**/*.ts"]
}`))
	return p
}

func (p *tsProject) write(t *testing.T, name string, text []byte) {
	t.Helper()
	at := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// add writes all TypeScript of a package, of which it gives the adapters only where they are asked for: they are the
// same for all but schemas.ts.
func (p *tsProject) add(t *testing.T, name string, m *model.Package, adapters bool) {
	t.Helper()
	for file, text := range typescriptOf(t, m) {
		if adapters || file == "events.ts" || file == "schemas.ts" {
			p.write(t, name+"/"+file, text)
			p.sizes[name] += len(text)
		}
	}
}

// compile reports what tsc says, and how long it took.
func (p *tsProject) compile(t *testing.T) {
	t.Helper()
	begun := time.Now()
	out, err := p.node(t, nil, "node_modules/typescript/bin/tsc", "-p", p.dir)
	if err != nil {
		t.Errorf("tsc: %v\n%.20000s", err, out)
	}
	t.Logf("tsc took %v", time.Since(begun).Round(100*time.Millisecond))
}

// node runs a program of the installed packages.
func (p *tsProject) node(t *testing.T, input []byte, program string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--max-old-space-size=3000", filepath.Join(p.tools, program)}, args...)...)
	cmd.Dir, cmd.Stdin = p.tools, bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// What is generated of the golden cases, the examples, GitHub's set and thousands of event types is clean under the
// strictest flags; the files for the SDKs compile against them, and the lint finds nothing (TS-2, TS-3). What narrows
// and what must not compile is in testdata/typescript/types.ts (TS-1, TS-10).
func TestTypeScriptCompiles(t *testing.T) {
	p := newProject(t)
	inspect := func(name string, r gen.Request, adapters bool) {
		m, found, err := gen.Inspect(t.Context(), r)
		if err != nil || m == nil {
			t.Fatal(diagnosticText(found), err)
		}
		p.add(t, name, m, adapters)
	}
	for name, c := range goldenCases(t) {
		if m, _, err := gen.Inspect(t.Context(), c.request); err == nil && m != nil {
			p.add(t, filepath.Base(name), m, name == "unions")
		}
	}
	examples, err := filepath.Glob("../examples/schemas/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatal(examples, err)
	}
	for _, f := range examples {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		inspect(name, gen.Request{Dir: filepath.Dir(f), Files: []string{filepath.Base(f)}, Out: "want"}, true)
	}
	p.addTests(t)
	p.compile(t)
	if out, err := p.node(t, nil, "node_modules/eslint/bin/eslint.js", "run/"+t.Name()); err != nil {
		t.Errorf("eslint: %v\n%.10000s", err, out)
	}
}

// GitHub's set and 5,000 event types are compiled by themselves, so that what they cost is seen (TS-3).
func TestTypeScriptLarge(t *testing.T) {
	for name, prepare := range map[string]func(dir string) gen.Request{
		"github": func(dir string) gen.Request {
			content, err := provider.GitHubSchema()
			if err != nil {
				t.Fatal(err)
			}
			root, _ := source.Parse("webhooks.schema.json", content)
			var names []string
			for _, e := range octokitExamples(t) {
				names = append(names, e.Event)
			}
			write(t, dir, "webhooks.schema.json", string(content))
			write(t, dir, "github.yaml", octokitFile(slices.Compact(names), root.Get("definitions")))
			return gen.Request{Dir: dir, Files: []string{"github.yaml"}, Out: "github", Refs: map[string]string{octokitURL: "webhooks.schema.json"}, Emit: []string{"types"}}
		},
		"thousands": func(dir string) gen.Request {
			write(t, dir, "many.yaml", benchFile(5000))
			return gen.Request{Dir: dir, Files: []string{"many.yaml"}, Out: "many", Emit: []string{"types"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			m, found, err := gen.Inspect(t.Context(), prepare(t.TempDir()))
			if err != nil || m == nil {
				t.Fatal(diagnosticText(found), err)
			}
			p.add(t, name, m, true)
			p.compile(t)
			t.Logf("%d event types, %d types, %d KB", len(m.Events), len(m.Types), p.sizes[name]>>10)
		})
	}
}

// Whatever the official suite calls valid is a value of the TypeScript type, less members that the schema does not
// name (TS-3).
func TestTypeScriptSuite(t *testing.T) {
	p := newProject(t)
	refs := absolute(t, remotes)
	dir := t.TempDir()
	tried := 0
	for _, c := range suite(t) {
		write(t, dir, "e.json", string(eventDocument([]string{fmt.Sprintf("%q:%s", c.name, c.entry())}, []string{c.event(false)})))
		m, _, err := gen.Inspect(t.Context(), gen.Request{Dir: dir, Files: []string{"e.json"}, Out: "e", Refs: refs, Emit: []string{"types"}})
		if err != nil || m == nil {
			continue // refused, or its dialect is another
		}
		v := newValues(m)
		n := 0
		for _, test := range c.Tests {
			if test.Valid && v.add(t, fmt.Appendf(nil, `{"v":%s}`, test.Data), "") {
				n++
			}
		}
		tried += n
		if n > 0 {
			p.write(t, c.name+".ts", append(typescriptOf(t, m)["events.ts"], v.text.Bytes()...))
		}
	}
	if tried < 2000 {
		t.Errorf("only %d instances were tried", tried)
	}
	t.Logf("%d instances", tried)
	p.compile(t)
}

// values are constants of the payload of a package's first event type, as TypeScript.
type values struct {
	types   map[string]model.Type
	payload model.Type
	name    string
	text    bytes.Buffer
	n       int
}

func newValues(m *model.Package) *values {
	v := &values{types: map[string]model.Type{}}
	for _, d := range m.Types {
		v.types[d.Name] = d.Type
		if d.Name == m.Events[0].Payload.Type {
			v.payload, v.name = d.Type, d.TS.Name
		}
	}
	return v
}

// add writes a value without the members that its type does not name; false when that cannot be written as a literal.
func (v *values) add(t *testing.T, data []byte, before string) bool {
	t.Helper()
	if bytes.Contains(data, []byte("__proto__")) || v.vague(v.payload, map[string]bool{}) { // which no literal has as a member
		return false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v.named(value, v.payload))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&v.text, "%sexport const v%d: %s = %s;\n", before, v.n, v.name, text)
	v.n++
	return true
}

// vague reports whether several objects, one of which requires nothing, are told apart by nothing: TypeScript takes none
// of its values for one that has members of another variant alone.
func (v *values) vague(t model.Type, seen map[string]bool) bool {
	if t.Kind == model.Ref {
		if seen[t.Ref] {
			return false
		}
		seen[t.Ref] = true
		t = v.types[t.Ref]
	}
	found := false
	eachType(t, func(inner model.Type) {
		objects := v.flat(inner, 0)
		weak := slices.ContainsFunc(objects, func(o model.Type) bool {
			return !slices.ContainsFunc(o.Members, func(m model.Member) bool { return m.Required })
		})
		found = found || len(objects) > 1 && weak && inner.Discriminator == "" || inner.Kind == model.Ref && v.vague(inner, seen)
	})
	return found
}

// flat are the objects among the variants of a union.
func (v *values) flat(t model.Type, depth int) []model.Type {
	var all []model.Type
	for _, variant := range t.Variants {
		if of := v.follow(variant.Type); of.Kind == model.Object {
			all = append(all, of)
		} else if of.Kind == model.Union && depth < 5 {
			all = append(all, v.flat(of, depth+1)...)
		}
	}
	return all
}

// named is a value less the members that its type does not name.
func (v *values) named(value any, t model.Type) any {
	for t.Kind == model.Ref {
		t = v.types[t.Ref]
	}
	switch x := value.(type) {
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = v.named(e, v.element(t, i))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if of, ok := v.member(t, k); ok {
				out[k] = v.named(e, of)
			}
		}
		return out
	}
	return value
}

var anything = model.Type{Kind: model.Any}

func (v *values) element(t model.Type, i int) model.Type {
	switch {
	case t.Kind == model.Array:
		return *t.Items
	case t.Kind == model.Tuple && i < len(t.Elements):
		return t.Elements[i]
	case t.Kind == model.Tuple && t.Rest != nil:
		return *t.Rest
	case t.Kind == model.Union:
		for _, variant := range t.Variants {
			if of := v.follow(variant.Type); of.Kind == model.Array || of.Kind == model.Tuple {
				return v.element(of, i)
			}
		}
	}
	return anything
}

func (v *values) follow(t model.Type) model.Type {
	for t.Kind == model.Ref {
		t = v.types[t.Ref]
	}
	return t
}

// member is the type of a member, false where the type names none such: of a union, where no variant does.
func (v *values) member(t model.Type, name string) (model.Type, bool) {
	switch t.Kind {
	case model.Object:
		for _, m := range t.Members {
			if m.Name == name {
				return m.Type, true
			}
		}
		if t.Extra != nil {
			return anything, true
		}
		return anything, len(t.Members) == 0 && len(t.Patterns)+len(t.Choices) > 0
	case model.Map:
		return *t.Items, true
	case model.Union:
		var found []model.Variant
		for _, variant := range t.Variants {
			if of, ok := v.member(v.follow(variant.Type), name); ok {
				found = append(found, model.Variant{Type: of})
			}
		}
		return model.Type{Kind: model.Union, Variants: found}, len(found) > 0
	}
	return anything, true
}

// For random schemas: a value that ajv takes is one of the TypeScript type, and one with a member of another type,
// which ajv does not take, is none (TS-3).
func TestTypeScriptRandom(t *testing.T) {
	const wanted = 1000
	p := newProject(t)
	dir := t.TempDir()
	type drawn struct {
		m      *model.Package
		values []json.RawMessage
		wrong  int // from where on a member has another type
	}
	var all []drawn
	var questions bytes.Buffer
	draw := rapid.Custom(func(t *rapid.T) map[string]any {
		return map[string]any{
			"version": 1, "package": "p", "schemas": map[string]any{"A": object(t, 1), "B": schemas(t, 1), "C": schemas(t, 1)},
			"events": []any{map[string]any{
				"name": "thing.happened", "description": "It happened.", "inputSchema": map[string]any{"type": "object"}, "payloadSchema": object(t, 2),
			}},
		}
	})
	for seed := 0; len(all) < wanted; seed++ {
		if seed > 20*wanted {
			t.Fatalf("of %d drawn files %d are accepted", seed, len(all))
		}
		doc, err := json.Marshal(draw.Example(seed))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "e.json", string(doc))
		m, _, err := gen.Inspect(t.Context(), gen.Request{Dir: dir, Files: []string{"e.json"}, Out: "e", Emit: []string{"types"}})
		if err != nil || m == nil || len(newValues(m).payload.Members) == 0 {
			continue
		}
		schema, err := json.Marshal(map[string]any{"$ref": m.Events[0].Payload.Schema, "$defs": m.Defs})
		if err != nil {
			t.Fatal(err)
		}
		value, ok := sample.Value(schema)
		if !ok {
			continue
		}
		d := drawn{m: m, values: variations(t, value)}
		d.wrong = len(d.values)
		d.values = append(d.values, spoilt(t, value, newValues(m))...)
		question, err := json.Marshal(map[string]any{"schema": json.RawMessage(schema), "values": d.values})
		if err != nil {
			t.Fatal(err)
		}
		questions.Write(append(question, '\n'))
		all = append(all, d)
	}
	answers, err := p.node(t, questions.Bytes(), "ajv.mjs")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(answers), []byte("\n"))
	if len(lines) != len(all) {
		t.Fatalf("%d answers to %d questions", len(lines), len(all))
	}
	valid, wrong := 0, 0
	for i, d := range all {
		var verdicts []bool
		if err := json.Unmarshal(lines[i], &verdicts); err != nil {
			t.Fatal(err)
		}
		v := newValues(d.m)
		for j, data := range d.values {
			switch {
			case verdicts[j] && v.add(t, data, ""):
				valid++
			case !verdicts[j] && j >= d.wrong && v.add(t, data, "// @ts-expect-error\n"):
				wrong++
			}
		}
		p.write(t, fmt.Sprintf("r%d.ts", i), append(typescriptOf(t, d.m)["events.ts"], v.text.Bytes()...))
	}
	if valid < wanted || wrong < wanted {
		t.Errorf("%d valid and %d wrong values", valid, wrong)
	}
	t.Logf("%d valid and %d wrong values", valid, wrong)
	p.compile(t)
}

// variations are a value, and it less one member each, and with one more.
func variations(t *testing.T, value json.RawMessage) []json.RawMessage {
	t.Helper()
	all := []json.RawMessage{value}
	members := membersOf(t, value)
	for _, k := range slices.Sorted(maps.Keys(members)) {
		less := maps.Clone(members)
		delete(less, k)
		all = append(all, encode(t, less))
	}
	more := maps.Clone(members)
	more["zz further"] = json.RawMessage(`[1]`)
	return append(all, encode(t, more))
}

// spoilt are values in which one member has another type.
func spoilt(t *testing.T, value json.RawMessage, v *values) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	members := membersOf(t, value)
	for _, m := range v.payload.Members {
		other := ""
		switch of := v.follow(m.Type); of.Kind {
		case model.String, model.Array, model.Tuple, model.Map:
			other = `1`
		case model.Object:
			other = `"x"`
		case model.Integer, model.Number, model.Boolean:
			other = `"x"`
		}
		if other == "" {
			continue
		}
		with := maps.Clone(members)
		with[m.Name] = json.RawMessage(other)
		all = append(all, encode(t, with))
	}
	return all
}

func membersOf(t *testing.T, value json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(value, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
