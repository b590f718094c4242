package docs_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/docs"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

var update = flag.Bool("update", false, "write the pages in testdata")

func load(t *testing.T, path string) docs.Package {
	t.Helper()
	set, found := schema.Load([]string{path}, schema.Options{})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	return typed(t, set)
}

// typed is a set with its model.
func typed(t *testing.T, set *schema.Set) docs.Package {
	t.Helper()
	p, found := ir.Build(set, ir.Options{})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	return docs.Package{Set: set, Model: p.Describe()}
}

// page is the page of an event file that is given as text.
func page(t *testing.T, file []byte, title string) *docs.Page {
	t.Helper()
	set, found := schema.Load([]string{"a.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	return docs.New([]docs.Package{typed(t, set)}, docs.Options{Title: title})
}

// The pages of the example are those in testdata; -update writes them.
func TestPages(t *testing.T) {
	set := load(t, "testdata/incidents.yaml")
	page := docs.New([]docs.Package{set}, docs.Options{Title: "Incidents", Since: "git:v1.0.0", Changes: docs.Changes(load(t, "testdata/incidents-v1.yaml"), set)})
	html, err := page.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string][]byte{"incidents.md": page.Markdown(), "incidents.html": html} {
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, got, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s has changed; look at it in light and dark, then run with -update", file)
		}
	}
}

// Every event file of the repository gives a page that is well formed, asks for nothing from elsewhere,
// links to what is there, and shows examples that are valid.
func TestPagesOfAll(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../../examples/schemas/*.yaml", "../../../golden/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	tried := 0
	for _, file := range files {
		set, found := schema.Load([]string{file}, schema.Options{})
		if source.HasErrors(found) {
			continue
		}
		p, found := ir.Build(set, ir.Options{})
		if source.HasErrors(found) {
			continue
		}
		tried++
		packages := []docs.Package{{Set: set, Model: p.Describe()}}
		page := docs.New(packages, docs.Options{Title: file})
		html, err := page.HTML()
		if err != nil {
			t.Fatal(err)
		}
		checkHTML(t, file, string(html))
		checkExamples(t, set, page)
		if again, _ := docs.New(packages, docs.Options{Title: file}).HTML(); !bytes.Equal(again, html) {
			t.Errorf("%s gives another page on the second run", file)
		}
	}
	if tried < 30 {
		t.Errorf("only %d files have a page", tried)
	}
}

var attribute = regexp.MustCompile(`\b(href|id|src|aria-labelledby)="([^"]*)"`)

func checkHTML(t *testing.T, file, text string) {
	t.Helper()
	for _, bad := range []string{"<script", "<link", "<img", "<iframe", "@import", "url(", "http-equiv=\"refresh\"", " src=", "javascript:"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s: the page holds %s", file, bad)
		}
	}
	ids := map[string]bool{}
	for _, m := range attribute.FindAllStringSubmatch(text, -1) {
		if m[1] == "id" {
			if ids[m[2]] {
				t.Errorf("%s: the id %s is there twice", file, m[2])
			}
			ids[m[2]] = true
		}
	}
	for _, m := range attribute.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "href":
			if !strings.HasPrefix(m[2], "#") || !ids[m[2][1:]] {
				t.Errorf("%s: the link %s leads nowhere on the page", file, m[2])
			}
		case "aria-labelledby":
			for id := range strings.FieldsSeq(m[2]) {
				if !ids[id] {
					t.Errorf("%s: the label %s is not there", file, id)
				}
			}
		}
	}
	// The page is XML too, whose reader knows unclosed elements.
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "<!DOCTYPE html>")))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("%s: %v", file, err)
			}
			return
		}
	}
}

func checkExamples(t *testing.T, set *schema.Set, page *docs.Page) {
	t.Helper()
	for _, f := range set.Files {
		for _, e := range f.Events {
			i := slices.IndexFunc(page.Events, func(p docs.Event) bool { return p.Name == e.Name })
			if i < 0 {
				continue
			}
			var example struct{ Data json.RawMessage }
			if err := json.Unmarshal(page.Events[i].Example, &example); err != nil {
				t.Errorf("%s has no example: %v", e.Name, err)
				continue
			}
			for _, v := range []struct {
				schema *source.Node
				value  json.RawMessage
			}{{e.Payload, example.Data}, {e.Input, page.Events[i].Subscribe}} {
				s, err := validate.Compile(set.Published(v.schema))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Validate(v.value); err != nil {
					t.Errorf("the example of %s: %v", e.Name, err)
				}
			}
		}
	}
}

// Rows say of members what a reader has to know (MODEL-1).
func TestRows(t *testing.T) {
	const text = `{"type":"object","properties":{
		"id":{"type":"string","pattern":"^a","minLength":2,"description":"Which."},
		"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},
		"people":{"type":"array","items":{"$ref":"#/$defs/P"}},
		"maybe":{"type":["integer","null"],"default":3,"deprecated":true},
		"counts":{"type":"object","additionalProperties":{"type":"integer"}},
		"self":{"$ref":"#"},
		"one":{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"string"}}},{"type":"object","properties":{"k":{"const":"b"}}}]},
		"when":{"type":"string","format":"date-time"},
		"or":{"anyOf":[{"type":"string"},{"type":"integer"}]},
		"null":{"oneOf":[{"$ref":"#/$defs/P"},{"type":"null"}]},
		"any":true,
		"listed":{"oneOf":[{"const":1,"title":"One"},{"const":2}]},
		"usual":{"anyOf":[{"enum":["a","b"]},{"type":"string"}]},
		"loose":{"properties":{"x":{"type":"string"}},"minLength":2},
		"named":{"type":"object","patternProperties":{"^n":{"type":"number"}},"additionalProperties":{"type":"string"},"maxProperties":9},
		"either":{"type":"object","properties":{"id":{"type":"string"}},"anyOf":[{"title":"A","properties":{"x":{"type":"string"}}},{"$ref":"#/$defs/Q"}]},
		"base":{"allOf":[{"$ref":"#/$defs/P"},{"type":"object","properties":{"more":{"type":"null"}}}]},
		"pay":{"type":"number","x-private":true},
		"text":{"$ref":"#/$defs/T"}},
		"required":["id"],"$defs":{"Q":{"properties":{"x":{"type":"integer"}},"required":["x"]},"T":{"type":"string","description":"What.","default":"d"},"P":{"description":"Who.","type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	var lines []string
	file := `{"version":1,"events":[{"name":"a","description":"A.","inputSchema":{"type":"object"},"payloadSchema":` + text + `}]}`
	for _, r := range page(t, []byte(file), "Rows").Events[0].Payload {
		line := strings.Repeat("  ", r.Depth)
		if r.Variant != "" {
			lines = append(lines, line+r.Variant)
			continue
		}
		line += r.Path + ": " + r.Type
		if r.Required {
			line += ", required"
		}
		if r.Deprecated {
			line += ", deprecated"
		}
		if r.Default != "" {
			line += ", default " + r.Default
		}
		for _, more := range [][]string{r.Limits, r.Values} {
			if len(more) > 0 {
				line += ", " + strings.Join(more, ", ")
			}
		}
		if r.Description != "" {
			line += ": " + r.Description
		}
		lines = append(lines, line)
	}
	const want = `id: string, required, at least 2 characters, matches ^a: Which.
tags: array of string, no element twice
people: array of object
  people[].name: string, required
maybe: integer or null, deprecated, default 3
counts: map of integer
  counts.*: integer
self: object
one: one of several objects
  when k is "a"
    one.k: constant, "a"
    one.x: string
  when k is "b"
    one.k: constant, "b"
when: date-time
or: string or integer
null: object or null: Who.
  null.name: string, required
any: any value
listed: integer, 1, 2
usual: string, others are valid too, "a", "b"
loose: any value, at least 2 characters
  loose.x: string
named: object, at most 9 members
  named./^n/: number
  named.*: string
either: object
  either.id: string
  or A
    either.x: string
  or Q
    either.x: integer, required
base: object: Who.
  base.name: string, required
  base.more: null
pay: number, not for all callers
text: string, default "d": What.`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

// Text of authors, or of a server that was imported, means nothing to Markdown and HTML.
func TestTextMeansNothing(t *testing.T) {
	const hostile = "A|B <script>alert(1)</script> [x](javascript:1) `c` *d* _e_\n# Title"
	file, err := json.Marshal(map[string]any{"version": 1, "events": []any{map[string]any{"name": "a", "description": hostile,
		"inputSchema":   map[string]any{"type": "object", "properties": map[string]any{hostile: map[string]any{"type": "string", "description": hostile, "default": hostile}}},
		"payloadSchema": map[string]any{"type": "object", "properties": map[string]any{"</style><b>": map[string]any{"enum": []string{"</code><script>", "a`b|c"}}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	page := page(t, file, hostile)
	html, err := page.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(html), "<script") || strings.Contains(string(html), "<b>") {
		t.Error("text of the author is HTML")
	}
	code := regexp.MustCompile("(?s)```.*?```|`` .*? ``|`[^`\n]*`")
	rest := code.ReplaceAllString(string(page.Markdown()), "")
	for _, bad := range []string{"<script", "[x](", "\n# Title", " *d*", " _e_"} {
		if strings.Contains(rest, bad) {
			t.Errorf("text of the author is Markdown: %s in\n%s", bad, rest)
		}
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n != 0 && n != 4 {
			t.Errorf("the row has %d bars: %s", n, line)
		}
	}
}

// What is new, gone or different is told event by event, and breaking changes are marked.
func TestChanges(t *testing.T) {
	var lines []string
	for _, c := range docs.Changes(load(t, "testdata/incidents-v1.yaml"), load(t, "testdata/incidents.yaml")) {
		for _, n := range c.Notes {
			mark := " "
			if n.Breaking {
				mark = "!"
			}
			lines = append(lines, mark+" "+c.Event+": "+n.Text)
		}
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		"! incident.created: payloadSchema/properties/service: was required and may now be absent",
		"  incident.created: member reporter is new",
		"  incident.created: argument severity may be \"P4\"",
		"  incident.updated: is new",
		"  incident.opened: is deprecated",
		"! incident.gone: was removed",
	} {
		if !strings.Contains("\n"+got+"\n", "\n"+want+"\n") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	same := load(t, "testdata/incidents.yaml")
	if c := docs.Changes(same, same); len(c) > 0 {
		t.Error(c)
	}
}

// Limits of one and filters on arrays are said in English.
func TestWords(t *testing.T) {
	file := []byte(`version: 1
events:
  - name: note.added
    description: Fires when a note is added.
    inputSchema:
      type: object
      properties:
        label: {type: string, x-match: /labels}
        some: {type: array, items: {type: string}, x-match: {path: /labels, op: in}}
        title: {type: string, minLength: 1, maxLength: 11, x-match: /title}
        other: {type: string, x-match: {path: /labels, not: true}}
        size: {type: integer, x-match: {path: /parts/*/size, op: gt}}
        each: {type: string, x-match: /labels/*}
    x-actor: /author
    payloadSchema:
      type: object
      properties: {author: {type: string}, parts: {type: array, items: {type: object, properties: {size: {type: integer}}}}, labels: {type: array, minItems: 1, maxItems: 2, items: {type: string}}, title: {type: string}, tags: {type: object, minProperties: 1}}
`)
	text := string(page(t, file, "Notes").Markdown())
	for _, want := range []string{
		"at least 1 character; at most 11 characters.", "at least 1 element; at most 2 elements.", "at least 1 member.",
		"delivers events with an element of labels that equals this.", "delivers events with an element of labels that is one of these.",
		"delivers events whose title equals this.", "leaves out events with an element of labels that equals this.",
		"delivers events with an element of parts whose size is greater than this.", "leaves out events whose author is one of these.",
		"Who caused an event: `author`.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said in\n%s", want, text)
		}
	}
}

// Examples of payloads and of arguments have at most two kilobytes.
func TestExamplesAreShort(t *testing.T) {
	object := func(member string) string {
		var b strings.Builder
		for i := range 14 {
			fmt.Fprintf(&b, "m%d: %s, ", i, member)
		}
		return "{type: object, required: [id], properties: {" + b.String() + "id: {type: string}}}"
	}
	large := object(object(object("{type: string}")))
	p := page(t, []byte("version: 1\nevents:\n  - {name: a.b, description: A., inputSchema: "+large+", payloadSchema: "+large+"}\n"), "Events")
	for what, raw := range map[string]json.RawMessage{"payload": p.Events[0].Example, "arguments": p.Events[0].Subscribe} {
		var shown bytes.Buffer
		if err := json.Indent(&shown, raw, "", "  "); err != nil || shown.Len() > 2200 { // an occurrence has other members than data
			t.Errorf("the example of the %s has %d bytes (%v)", what, shown.Len(), err)
		}
		for _, member := range []string{`"id":"`, `"m0":`} {
			if !bytes.Contains(raw, []byte(member)) {
				t.Errorf("the example of the %s has no %s", what, member)
			}
		}
	}
}
