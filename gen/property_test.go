package gen_test

import (
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
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

var names = rapid.OneOf(
	rapid.SampledFrom([]string{"id", "userId", "type", "func", "+1", "-1", "string", "error", "json", "events", "a b", "größe", "日本", "2fa", "Value", "Extra", "-"}),
	rapid.StringMatching(`[a-zA-Z_.+ -]{1,6}`),
)

// schemas draws a schema of the given depth; refs are names of shared schemas.
func schemas(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "integer", "number", "boolean", "date-time", "base64", "enum", "const", "ref"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "map", "union", "nullable", "raw")
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

func exported(t *testing.T, fset *token.FileSet, paths ...string) packageSet {
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

// TestOutputCompiles draws event files and type-checks what is generated: whatever is not reported
// compiles and is formatted.
func TestOutputCompiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	imports := exported(t, fset, "cmp", "encoding/json", "github.com/mcpe-gen/mcpe-gen/runtime/events")
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
		if err := os.WriteFile(filepath.Join(dir, "e.json"), doc, 0o644); err != nil {
			t.Fatal(err)
		}
		p, diags, err := gen.Generate(ctx, gen.Request{Dir: dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}})
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if p == nil {
			if !source.HasErrors(diags) {
				t.Fatalf("no plan and no error: %v", diags)
			}
			return
		}
		generated++
		var files []*ast.File
		for _, f := range p.Create {
			formatted, err := format.Source(f.Content)
			if err != nil || string(formatted) != string(f.Content) {
				t.Fatalf("%s is not formatted: %v\n%s", f.Path, err, f.Content)
			}
			parsed, err := parser.ParseFile(fset, f.Path, f.Content, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, parsed)
		}
		var wrong []string
		conf := types.Config{Importer: imports, Error: func(err error) { wrong = append(wrong, err.Error()) }}
		if _, err := conf.Check("example.com/m/p", fset, files, nil); err != nil {
			t.Fatalf("%s\n%s\n%s", strings.Join(wrong, "\n"), doc, p.Create[0].Content)
		}
	})
	if generated == 0 {
		t.Error("every drawn file had an error")
	}
	t.Logf("%d packages were generated", generated)
}
