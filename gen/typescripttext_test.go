package gen_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// typeScriptParts matches the comments of TypeScript and its literals, of which no part ends another.
var typeScriptParts = regexp.MustCompile("(?s)/\\*.*?\\*/|//[^\n]*|'(?:[^'\\\\\n]|\\\\.)*'|\"(?:[^\"\\\\\n]|\\\\.)*\"|`(?:[^`\\\\]|\\\\.)*`")

// typeScriptOutline generates TypeScript of an event file that has the text wherever authors write text. It returns
// the lines of its code without comments, with a dollar sign in place of each literal.
func typeScriptOutline(t *testing.T, text string) string {
	t.Helper()
	type object = map[string]any
	var file object
	if err := json.Unmarshal([]byte(fileOfText(t, text)), &file); err != nil {
		t.Fatal(err)
	}
	list := object{"enum": []string{text, "other"}, "x-enum-varnames": []string{"Text", "Other"}}
	file["schemas"].(object)["More"] = object{"type": "object", "properties": object{
		"of one literal": object{"type": "object", "properties": object{"a": object{"type": "integer"}},
			"additionalProperties": object{"const": text, "x-go-type": "encoding/json.RawMessage"}},
		"of tuples": object{"type": "object", "properties": object{"a": object{"type": "integer"}},
			"additionalProperties": object{"type": "array", "prefixItems": []any{object{"const": text + "k"}, object{"enum": []any{text, object{text: text}}}}}},
		"of literals": object{"type": "object", "properties": object{"a": object{"type": "integer"}}, "additionalProperties": list},
		"of objects": object{"type": "object", "properties": object{"a": object{"type": "integer"}},
			"additionalProperties": object{"enum": []any{object{"a": text}, []any{text, object{text + "k": 1}}}, "x-enum-varnames": []string{"One", "Two"}}},
		"z" + text:   object{"type": "string", "x-go-name": "Z", "default": text},
		"choice":     object{"enum": []any{text, object{text: text}}, "x-enum-varnames": []string{"Text", "Object"}, "default": text},
		"of strings": object{"type": "object", "additionalProperties": list},
	}}
	content, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "e.json", string(content))
	r := gen.Request{Dir: dir, Files: []string{"e.json"}, TypeScript: &gen.TypeScript{Out: "out", Emit: []string{"ai-sdk", "client", "webhook", "schemas"}}}
	p, diags, err := gen.Generate(t.Context(), r)
	if err != nil || p == nil {
		t.Fatalf("%q: %v %v", text, diagnosticText(diags), err)
	}
	var all strings.Builder
	for _, f := range p.Create {
		code := typeScriptParts.ReplaceAllStringFunc(string(f.Content), func(part string) string {
			if strings.HasPrefix(part, "/*") || strings.HasPrefix(part, "//") {
				return ""
			}
			return "$"
		})
		for line := range strings.Lines(code) {
			if line = strings.TrimSpace(line); line != "" {
				fmt.Fprintf(&all, "%s: %s\n", f.Path, line)
			}
		}
	}
	return all.String()
}

// An author's text ends neither a comment nor a string of generated TypeScript, wherever it stands: TS-3.
func TestTextStaysTextInTypeScript(t *testing.T) {
	want := typeScriptOutline(t, "harmless text")
	for _, text := range []string{
		"*/ a", "a */", "/* a", "a\n*/ b\n/*\nc", "a*", "/a", "// a", "'", "' + a + '", `\`, `a\`, `\'`, "\n", "\r", "a\n@default b", "`a`", "${a}", `"`,
		"\u2028*/\u2029", "\u202e*/", "\u0000", "</script>", "__proto__ x",
	} {
		if got := typeScriptOutline(t, text); got != want {
			t.Errorf("%q changes the code:\n%s", text, firstDifference(got, want))
		}
	}
}

// firstDifference returns the first line that differs.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
