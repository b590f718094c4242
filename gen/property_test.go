package gen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var names = rapid.OneOf(
	rapid.SampledFrom([]string{"id", "userId", "type", "func", "+1", "-1", "string", "error", "json", "events", "a b", "größe", "日本", "2fa", "Value", "Extra", "-", "a,b", `"`}),
	rapid.StringMatching(`[a-zA-Z_.+ -]{1,6}`),
)

// schemas draws a schema of the given depth; refs are names of shared schemas.
func schemas(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "integer", "number", "boolean", "date-time", "base64", "enum", "const", "ref"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "map", "union", "nullable", "raw",
			"merged", "beside", "patterns", "tuple", "conditions", "mixed", "numbers", "alternatives", "boolean schema", "untyped",
			"types", "required", "scalar or object")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "date-time":
		return map[string]any{"type": "string", "format": kind}
	case "base64":
		return map[string]any{"type": []string{"string", "null"}, "contentEncoding": kind}
	case "enum":
		return map[string]any{"enum": rapid.SliceOfNDistinct(names, 1, 4, rapid.ID).Draw(t, "values")}
	case "const":
		return map[string]any{"const": rapid.SampledFrom([]any{"a", 1, 2.5, true, false, 0, ""}).Draw(t, "const")}
	case "ref":
		return map[string]any{"$ref": "#/schemas/" + rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "ref"), "description": "Some text.\n+build x"}
	case "object":
		return object(t, depth-1)
	case "array":
		return map[string]any{"type": "array", "items": schemas(t, depth-1)}
	case "map":
		return map[string]any{"type": "object", "additionalProperties": schemas(t, depth-1)}
	case "union":
		var variants []any
		for i := range rapid.IntRange(1, 3).Draw(t, "variants") {
			v := object(t, depth-1)
			v["properties"].(map[string]any)["tag"] = map[string]any{"const": fmt.Sprint("v", i)}
			v["required"] = []string{"tag"}
			variants = append(variants, v)
		}
		return map[string]any{"oneOf": variants}
	case "nullable":
		return map[string]any{"anyOf": []any{schemas(t, depth-1), map[string]any{"type": "null"}}}
	case "raw":
		return map[string]any{"x-go-type": "encoding/json.RawMessage"}
	case "merged":
		return map[string]any{"allOf": []any{object(t, depth-1), schemas(t, depth-1)}, "unevaluatedProperties": false}
	case "beside":
		o := object(t, depth-1)
		o["$ref"] = "#/schemas/" + rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "ref")
		return o
	case "patterns":
		o := object(t, depth-1)
		o["patternProperties"] = map[string]any{"^a": schemas(t, depth-1), "b$": schemas(t, depth-1)}
		return o
	case "tuple":
		return map[string]any{"type": "array", "prefixItems": []any{schemas(t, depth-1), schemas(t, depth-1)}, "items": rapid.Bool().Draw(t, "open")}
	case "conditions":
		o := object(t, depth-1)
		o["if"], o["then"], o["else"] = object(t, 0), object(t, depth-1), object(t, depth-1)
		o["dependentSchemas"] = map[string]any{"id": object(t, depth-1)}
		o["dependentRequired"] = map[string]any{"x": []string{"y", "a,b"}}
		return o
	case "mixed":
		var values []json.RawMessage
		for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{`1`, `"a"`, `null`, `{"a":1}`, `[2]`, `1e300`, `-0.5`}), 1, 4, rapid.ID).Draw(t, "literals") {
			values = append(values, json.RawMessage(text))
		}
		return map[string]any{"enum": values}
	case "numbers":
		list := rapid.SliceOfNDistinct(rapid.SampledFrom([]any{0, 1, -7, 2.5, 1e300}), 1, 3, rapid.ID).Draw(t, "numbers")
		other := map[string]any{"type": rapid.SampledFrom([]string{"number", "integer"}).Draw(t, "type"), "minimum": 0}
		return map[string]any{"anyOf": []any{map[string]any{"enum": list}, other}}
	case "alternatives":
		return map[string]any{rapid.SampledFrom([]string{"oneOf", "anyOf"}).Draw(t, "keyword"): []any{schemas(t, depth-1), schemas(t, depth-1)}}
	case "types":
		o := object(t, depth-1)
		o["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"object", "array", "string", "integer", "number", "boolean", "null"}), 2, 5, rapid.ID).Draw(t, "types")
		o["items"], o["format"] = schemas(t, depth-1), rapid.SampledFrom([]string{"date-time", "uri"}).Draw(t, "format")
		return o
	case "required":
		var variants []any
		for i := range rapid.IntRange(2, 3).Draw(t, "variants") {
			v, own := object(t, depth-1), fmt.Sprint("own", i)
			v["properties"].(map[string]any)[own] = schemas(t, depth-1)
			v["required"] = []string{own}
			variants = append(variants, v)
		}
		return map[string]any{"anyOf": append(variants, map[string]any{"type": "array", "items": schemas(t, depth-1)})}
	case "scalar or object":
		scalar := rapid.SampledFrom([]any{map[string]any{"type": "string", "format": "date-time"}, map[string]any{"enum": []any{"a", "b"}},
			map[string]any{"type": []string{"integer", "null"}}, map[string]any{"const": false}}).Draw(t, "scalar")
		return map[string]any{"oneOf": []any{scalar, map[string]any{"$ref": "#/schemas/A"}}} // A is an object
	case "boolean schema":
		return map[string]any{"allOf": []any{rapid.Bool().Draw(t, "allowed"), schemas(t, depth-1)}}
	case "untyped":
		return map[string]any{"minLength": 1, "properties": map[string]any{"a": schemas(t, depth-1)}}
	default:
		return map[string]any{"type": kind, "default": rapid.SampledFrom([]any{"x", 1, true}).Draw(t, "default")}
	}
}

func object(t *rapid.T, depth int) map[string]any {
	props := map[string]any{}
	var required []string
	for _, name := range rapid.SliceOfNDistinct(names, 0, 4, rapid.ID).Draw(t, "members") {
		props[name] = schemas(t, depth)
		if rapid.Bool().Draw(t, "required") {
			required = append(required, name)
		}
	}
	o := map[string]any{"type": "object", "properties": props, "required": required}
	if required == nil {
		delete(o, "required")
	}
	if rapid.Bool().Draw(t, "open") {
		o["additionalProperties"] = true
	}
	return o
}

// A packageSet imports what was loaded from export data.
type packageSet map[string]*types.Package

func (s packageSet) Import(path string) (*types.Package, error) {
	if p := s[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not loaded", path)
}

func exported(t testing.TB, fset *token.FileSet, paths ...string) packageSet {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedExportFile, Fset: fset,
	}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	set := packageSet{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			t.Fatal(p.Errors)
		}
		set[p.PkgPath] = p.Types
	}
	return set
}

// A checker generates packages and type-checks them.
type checker struct {
	dir     string
	fset    *token.FileSet
	imports packageSet
}

func newChecker(t testing.TB) *checker {
	t.Helper()
	c := &checker{dir: t.TempDir(), fset: token.NewFileSet()}
	if err := os.WriteFile(filepath.Join(c.dir, "go.mod"), []byte("module example.com/m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.imports = exported(t, c.fset, "cmp", "slices", "encoding/json", "github.com/mcpe-gen/mcpe-gen/runtime/events",
		"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl")
	return c
}

// check reports whether the event file is accepted, and what is wrong with the code that it gives:
// whatever is not reported compiles and is formatted.
func (c *checker) check(ctx context.Context, document []byte) (accepted bool, wrong error) {
	if err := os.WriteFile(filepath.Join(c.dir, "e.json"), document, 0o644); err != nil {
		return false, err
	}
	p, diags, err := gen.Generate(ctx, gen.Request{Dir: c.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}})
	switch {
	case err != nil:
		return false, err
	case p == nil && !source.HasErrors(diags):
		return false, fmt.Errorf("no plan and no error: %v", diags)
	case p == nil:
		return false, nil
	}
	var files []*ast.File
	for _, f := range p.Create {
		formatted, err := format.Source(f.Content)
		if err != nil || string(formatted) != string(f.Content) {
			return true, fmt.Errorf("%s is not formatted: %v\n%s", f.Path, err, f.Content)
		}
		parsed, err := parser.ParseFile(c.fset, f.Path, f.Content, parser.SkipObjectResolution)
		if err != nil {
			return true, err
		}
		files = append(files, parsed)
	}
	var found []string
	conf := types.Config{Importer: c.imports, Error: func(err error) { found = append(found, err.Error()) }}
	if _, err := conf.Check("example.com/m/p", c.fset, files, nil); err != nil {
		return true, fmt.Errorf("%s\n%s", strings.Join(found, "\n"), p.Create[0].Content)
	}
	return true, nil
}

// TestOutputCompiles draws event files and type-checks what is generated.
func TestOutputCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	c := newChecker(t)
	generated, ctx := 0, t.Context()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(map[string]any{
			"version": 1, "package": "p",
			"schemas": map[string]any{"A": object(t, 2), "B": schemas(t, 1), "C": schemas(t, 2)},
			"events": []any{map[string]any{
				"name": "thing.happened", "description": "It happened.", "inputSchema": object(t, 1), "payloadSchema": object(t, 3),
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		accepted, wrong := c.check(ctx, doc)
		if wrong != nil {
			t.Fatalf("%v\n%s", wrong, doc)
		}
		if accepted {
			generated++
		}
	})
	if generated == 0 {
		t.Error("every drawn file had an error")
	}
	t.Logf("%d packages were generated", generated)
}

// Q11: a large enum has a sorted list in place of a switch.
func TestLargeEnum(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprintf("v%d", i))
	}
	doc, err := json.Marshal(map[string]any{
		"version": 1, "package": "p", "events": []any{map[string]any{"name": "e", "description": "d", "inputSchema": map[string]any{"type": "object"},
			"payloadSchema": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"enum": values}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(t)
	if accepted, wrong := c.check(t.Context(), doc); wrong != nil || !accepted {
		t.Fatal(accepted, wrong)
	}
	p, _, err := gen.Generate(t.Context(), gen.Request{Dir: c.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(p.Create[0].Content) + string(p.Create[1].Content)
	if strings.Contains(text, "switch") || !strings.Contains(text, "slices.BinarySearch(valuesOfEPayloadA, v)") {
		t.Error("the enum has no sorted list")
	}
}

// FuzzAccepted proves that any schema that is accepted gives code that type-checks.
func FuzzAccepted(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/schemas/S"}},"patternProperties":{"^x":{"type":"string"}}}`,
		`{"allOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"$ref":"#/schemas/T"}]}`,
		`{"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},{"$ref":"#/schemas/T"},{"type":"null"}]}`,
		`{"type":"array","prefixItems":[{"enum":["a",1,null,{"b":2}]}],"items":false}`,
		`{"type":"object","if":{"required":["a"]},"then":{"properties":{"b,c":{}}},"dependentRequired":{"x":["y"]}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"},true],"definitions":{"d":{"type":"integer"}}}`,
		`{"type":["object","null"],"additionalProperties":{"$ref":"#"},"unevaluatedProperties":{"type":"string"},"properties":{"n":false}}`,
		`{"x-go-name":"Named","anyOf":[{"enum":["x"],"x-enum-varnames":["Y"]},{"type":"string"}]}`,
	} {
		f.Add([]byte(seed))
	}
	c := newChecker(f)
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !json.Valid(schema) || len(schema) > 4<<10 {
			return
		}
		doc := fmt.Appendf(nil, `{"version":1,"package":"p","schemas":{"S":%s,"T":{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}},`+
			`"events":[{"name":"e","description":"d","inputSchema":{"type":"object"},"payloadSchema":{"type":"object","properties":{"s":{"$ref":"#/schemas/S"}}}}]}`, schema)
		if _, wrong := c.check(t.Context(), doc); wrong != nil {
			t.Fatalf("%v\n%s", wrong, doc)
		}
	})
}
