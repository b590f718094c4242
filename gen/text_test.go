package gen_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// fileOfText returns an event file that has the text wherever authors write text.
func fileOfText(t *testing.T, text string) string {
	t.Helper()
	type object = map[string]any
	content, err := json.Marshal(object{
		"version": 1, "package": "p",
		"schemas": object{
			"Choice": object{"description": text, "enum": []string{text, "other"}, "x-enum-varnames": []string{"Text", "Other"}},
			"Only":   object{"type": "object", "properties": object{"a": object{"const": text + "a", "x-go-name": "A"}}, "required": []string{"a"}},
			"Thing": object{"title": text, "description": text, "type": "object", "properties": object{
				"a": object{"type": "string", "title": text, "description": text, "default": text, "deprecated": true},
			}},
			"Raw": object{"description": text, "x-go-type": "encoding/json.RawMessage"},
		},
		"events": []object{{"name": "e", "description": text, "inputSchema": object{"type": "object", "description": text},
			"payloadSchema": object{"$ref": "#/schemas/Thing", "description": text}}},
		"tasks": []object{{"name": "f", "title": text, "description": text, "inputSchema": object{"type": "object"},
			"updateSchema": object{"type": "object", "description": text}, "resultSchema": object{"$ref": "#/schemas/Only"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// outline returns the declarations of generated Go code in order and the values of its string literals.
func outline(t *testing.T, text string) (declared, literals []string) {
	t.Helper()
	dir := module(t, map[string]string{"e.json": fileOfText(t, text)})
	p, diags, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"e.json"}, Out: "out"})
	if err != nil || p == nil {
		t.Fatalf("%q: %v %v", text, diagnosticText(diags), err)
	}
	for _, f := range p.Create {
		if !strings.HasSuffix(f.Path, ".go") {
			continue
		}
		if strings.ContainsFunc(string(f.Content), func(r rune) bool { return source.Hidden(r) && r != '\n' && r != '\t' }) {
			t.Errorf("%q: %s has hidden characters:\n%q", text, f.Path, f.Content)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Path, f.Content, parser.ParseComments)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared = append(declared, "func "+n.Name.Name)
			case *ast.TypeSpec:
				declared = append(declared, "type "+n.Name.Name)
			case *ast.ValueSpec:
				declared = append(declared, "value "+n.Names[0].Name)
			case *ast.BasicLit:
				if value, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					literals = append(literals, value)
				}
			case *ast.Comment:
				if strings.HasPrefix(n.Text, "/*") || strings.HasPrefix(n.Text, "//go:") && n.Text != "//go:embed mcpe.schemas.json" {
					t.Errorf("%q: the comment is %s", text, n.Text)
				}
			}
			return true
		})
	}
	return declared, literals
}

// An author's text ends neither a comment nor a string of generated code, and it hides nothing from readers.
func TestTextStaysText(t *testing.T) {
	want, _ := outline(t, "harmless")
	for _, text := range []string{
		"/* a", "*/ a", "a\n*/ b\n/*\nc", "// a", "//go:build ignore", "a\n//go:noinline\nb", "//line x.go:1", "default",
		"`a`", "`+a+`", `"+a+"`, `a\`, `"\n`, "\"\n\nvar a = 1", "\"a\r\nb", "\"a\u2028b\"", "\"\\\u202ea", "\"\u0000", "\"\u0007\ufeff", "\u0000", "\u202e",
	} {
		got, literals := outline(t, text)
		if !slices.Equal(got, want) {
			t.Errorf("%q: declared are %q, want %q", text, got, want)
		}
		if !slices.Contains(literals, text) {
			t.Errorf("%q is not among the strings %q", text, literals)
		}
	}
}
