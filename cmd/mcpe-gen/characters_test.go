package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oddCharacters are what RFC 8259, section 7, allows in JSON strings and other formats do not, or hardly; oddEscapes is
// the same text by escapes.
const (
	oddCharacters = "\x00\u007f\u0080\u0085\u009f\ufeff\ufffe\uffff"
	oddEscapes    = `\u0000\u007f\u0080\u0085\u009f\ufeff\ufffe\uffff`
)

const oddEvents = `version: 1
package: odd
schemas:
  Kind: {description: "kind ~", enum: ["kind ~", b]}
events:
  - name: odd
    description: "Says ~."
    _meta: {"meta ~": "~"}
    x-coalesce: {key: "/member ~", quietSeconds: 5, maxSeconds: 60}
    inputSchema: {type: object, properties: {a: {type: string, description: "argument ~", default: "default ~"}}, additionalProperties: false}
    payloadSchema:
      type: object
      description: "payload ~"
      required: ["member ~", text, kind]
      properties:
        "member ~": {type: string, const: "const ~"}
        text: {type: string, examples: ["example ~"]}
        kind: {$ref: '#/schemas/Kind'}
`

// An event file may have any character of JSON by its escape; what the verbs write of it is valid and says the
// same.
func TestCharactersByEscape(t *testing.T) {
	dir := writeFiles(t, map[string]string{"go.mod": goMod, "odd.yaml": strings.ReplaceAll(oddEvents, "~", oddEscapes)})
	for _, args := range [][]string{
		{"generate", "odd.yaml", "-o", "code", "--typescript", "code"}, {"lint", "odd.yaml"}, {"docs", "odd.yaml", "-o", "pages"},
		{"export", "asyncapi", "odd.yaml", "-o", "api.yaml"}, {"export", "asyncapi", "odd.yaml", "-o", "api.json"},
		{"import", "api.yaml", "-o", "again.yaml"}, {"import", "api.json", "-o", "more.yaml"},
		{"breaking", "--category", "WIRE,SOURCE,STRICT", "--against", "odd.yaml", "again.yaml"},
		{"breaking", "--category", "WIRE,SOURCE,STRICT", "--against", "odd.yaml", "more.yaml"},
	} {
		if out, code := runIn(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit %d\n%s", args, code, out)
		}
	}
	for _, name := range []string{"code/odd.mcpe.go", "code/oddserver/odd.mcpe.go", "code/oddclient/odd.mcpe.go", "code/events.ts",
		"pages/odd.md", "pages/odd.html", "api.yaml", "again.yaml"} {
		text := readText(t, filepath.Join(dir, name))
		if i := strings.IndexAny(text, oddCharacters); i >= 0 {
			t.Errorf("%s has %q unescaped", name, text[i:min(i+40, len(text))])
		}
		if !strings.HasSuffix(name, ".go") && !strings.Contains(strings.ToLower(text), oddEscapes) {
			t.Errorf("%s does not have the text by escapes", name)
		}
	}
	kind := "kind " + oddCharacters
	if all := goStrings(t, filepath.Join(dir, "code/odd.mcpe.go")); !slices.Contains(all, kind) {
		t.Errorf("Go has the strings %q", all)
	}
	var api struct {
		Components struct {
			Schemas map[string]struct{ Enum []string }
		}
	}
	if err := json.Unmarshal([]byte(readText(t, filepath.Join(dir, "api.json"))), &api); err != nil || api.Components.Schemas["Kind"].Enum[0] != kind {
		t.Errorf("AsyncAPI has %q, %v", api, err)
	}
	if text := readText(t, filepath.Join(dir, "pages/odd.md")); !strings.Contains(text, `"text": "example `+oddEscapes+`"`) {
		t.Errorf("the page has no example:\n%s", text)
	}
}

// No character that turns the direction of a line or shows nothing is raw in a comment or a page, so that generated
// files read as they compile. Nor does the name of a directory end the line of a header.
func TestHiddenCharacters(t *testing.T) {
	const (
		turning = "\u202e\u202b\u2066\u2067\u061c\u200f"
		hidden  = turning + "\u200b\u00ad\ufe0f\u3164\u2060\U000e0041"
	)
	in := "in" + hidden
	if runtime.GOOS != "windows" {
		in += "\nvar X = 1"
	}
	name := filepath.Join(in, "odd.yaml")
	dir := writeFiles(t, map[string]string{"go.mod": goMod, name: strings.ReplaceAll(oddEvents, "~", "a"+hidden+"b")})
	for _, args := range [][]string{{"generate", name, "-o", "code", "--typescript", "code"}, {"docs", name, "-o", "pages"}, {"generate", name, "-o", "code", "--typescript", "code", "--check"}} {
		if out, code := runIn(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit %d\n%s", args, code, out)
		}
	}
	for _, name := range []string{"code/odd.mcpe.go", "code/mcpe.go", "code/oddserver/odd.mcpe.go", "code/oddserver/mcpe.go",
		"code/oddclient/odd.mcpe.go", "code/oddclient/mcpe.go", "code/events.ts", "pages/odd.md", "pages/odd.html"} {
		text := readText(t, filepath.Join(dir, name))
		raw := hidden
		if strings.HasSuffix(name, ".go") { // in strings strconv.Quote escapes what turns, and leaves letters and marks
			raw = turning
		}
		if i := strings.IndexAny(text, raw); i >= 0 {
			t.Errorf("%s has %+q", name, text[max(i-40, 0):min(i+40, len(text))])
		}
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && strings.ContainsAny(id.Name, hidden) {
				t.Errorf("%s has the name %+q", name, id.Name)
			}
			return true
		})
		for _, c := range f.Comments {
			if strings.ContainsAny(c.Text(), hidden) {
				t.Errorf("%s has the comment %+q", name, c.Text())
			}
		}
	}
	if text := readText(t, filepath.Join(dir, "code/odd.mcpe.go")); !strings.Contains(text, "// kind ab\n") {
		t.Errorf("no description:\n%s", text)
	}
}

// goStrings returns the string literals of a Go file.
func goStrings(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Errorf("%s: %v", lit.Value, err)
			}
			all = append(all, s)
		}
		return true
	})
	return all
}

// import reads a JSON document with these characters as they are, and a byte order mark before it.
func TestImportOfCharacters(t *testing.T) {
	odd := strings.TrimPrefix(oddCharacters, "\x00")
	doc := "\ufeff" + `{"openapi": "3.1.0", "webhooks": {"w": {"post": {"description": "` + odd + `", "requestBody": {"content":
		{"application/json": {"schema": {"type": "object", "required": ["k"], "properties": {"k": {"enum": ["` + odd + `", "b"]}}}}}}}}}}`
	dir := writeFiles(t, map[string]string{"go.mod": goMod, "api.json": doc})
	for _, args := range [][]string{{"import", "api.json", "-o", "events.yaml"}, {"generate", "events.yaml", "-o", "code"}} {
		if out, code := runIn(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit %d\n%s", args, code, out)
		}
	}
	if all := goStrings(t, filepath.Join(dir, "code/events.mcpe.go")); !slices.Contains(all, odd) {
		t.Errorf("Go has the strings %q", all)
	}
}
