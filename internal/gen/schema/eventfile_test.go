package schema_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func eventFileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.EventFileSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///events.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///events.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// formal lists the codes of faults that the JSON Schema of the event file must find too. Add a code here if an editor can
// detect its fault by the schema alone.
var formal = []string{"MCPE120", "MCPE121", "MCPE122", "MCPE123", "MCPE124", "MCPE127", "MCPE130", "MCPE132"}

// The JSON Schema of the event file accepts the files of testdata/good and refuses those of
// testdata/bad whose form is wrong.
func TestEventFileSchemaAgreesWithLoad(t *testing.T) {
	s := eventFileSchema(t)
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, found := load(t, a)
		for _, f := range a.Files {
			n, text := source.Parse(f.Name, f.Data)
			if f.Name == "want" || n == nil || source.HasErrors(text) {
				continue
			}
			var malformed, other bool
			for _, d := range found {
				if d.Range.Start.File == f.Name && d.Severity == source.Error {
					malformed = malformed || slices.Contains(formal, d.Code)
					other = true
				}
			}
			err := s.Validate(n.Value())
			switch {
			case malformed && err == nil:
				t.Errorf("%s: %s is accepted", path, f.Name)
			case !other && err != nil:
				t.Errorf("%s: %s is refused: %v", path, f.Name, err)
			}
		}
	}
}

// The keys of an event, one wrong value at a time: the loader and the JSON Schema agree about each.
func TestEventFileSchemaKeyByKey(t *testing.T) {
	s := eventFileSchema(t)
	const event = "version: 1\nevents:\n  - name: a\n    description: d\n    inputSchema: {type: object}\n    payloadSchema: {type: object, additionalProperties: {type: string}}\n"
	for _, c := range []struct {
		line  string
		valid bool
	}{
		{"delivery: [push]", true}, {"delivery: []", false}, {"delivery: [push, push]", false}, {"delivery: [x]", false}, {"delivery: push", false},
		{"source: both", true}, {"source: none", false}, {"replay: false", true}, {"replay: 'false'", false},
		{"stability: experimental", true}, {"stability: beta", false},
		{"deprecated: {}", true}, {"deprecated: true", false}, {"deprecated: {removeAfter: 2027-02-28}", true},
		{"deprecated: {removeAfter: 2027-02-29}", false}, {"deprecated: {removeAfter: soon}", false}, {"deprecated: {replacedBy: a b}", false},
		{"mcpe: {enabled: false, priority: low, tags: [a]}", true}, {"mcpe: {priority: none}", false}, {"mcpe: {tags: [a, a]}", false}, {"mcpe: {x: 1}", false},
		{"from: {provider: github, event: push}", true}, {"from: {provider: github, event: issues, action: opened}", true},
		{"from: {provider: hmac, id: /id}", true}, {"from: {provider: github}", false}, {"from: {event: push}", false}, {"from: {provider: gitea, event: a}", false},
		{"from: push", false}, {"from: {provider: github, event: ''}", false}, {"from: {provider: github, event: push, fields: {}}", false},
		{"from: {provider: github, event: push, fields: {/a: 1}}", false}, {"from: {provider: github, event: push, unchecked: 1}", false},
		{"from: {provider: github, event: push, to: a}", false},
		{"x-coalesce: {key: /a, quietSeconds: 1, maxSeconds: 2}", true}, {"x-coalesce: {key: [/a], quietSeconds: 1, maxSeconds: 86400, keep: all}", true},
		{"x-coalesce: {key: a, quietSeconds: 1, maxSeconds: 2}", false}, {"x-coalesce: {key: [], quietSeconds: 1, maxSeconds: 2}", false},
		{"x-coalesce: {key: [/a, /a], quietSeconds: 1, maxSeconds: 2}", false}, {"x-coalesce: {key: /a, quietSeconds: 0, maxSeconds: 2}", false},
		{"x-coalesce: {key: /a, quietSeconds: 1, maxSeconds: 86401}", false}, {"x-coalesce: {key: /a, quietSeconds: 1.5, maxSeconds: 2}", false},
		{"x-coalesce: {key: /a, quietSeconds: 1}", false}, {"x-coalesce: {key: /a, quietSeconds: 1, maxSeconds: 2, keep: first}", false},
		{"x-coalesce: /a", false}, {"x-coalesce: {key: /a, quietSeconds: 1, maxSeconds: 2, wait: 1}", false},
		{"_meta: {io.github.mcpe-gen/coalesce: {}}", false},
		{"_meta: {a: 1}", true}, {"_meta: 1", false}, {"x-go-name: A", true}, {"x-go-name: a", false}, {"x-go-name: A-B", false},
		{"x-tool-name: read-it", true}, {"x-tool-name: read it", false}, {"x-tool-name: " + strings.Repeat("x", 65), false},
		{"x-tool-args: {cursor: c}", true}, {"x-tool-args: {cursor: ''}", false}, {"x-tool-args: {other: c}", false}, {"title: a", false},
	} {
		file := event + "    " + c.line + "\n"
		_, found := schema.Load([]string{"f.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		if source.HasErrors(found) == c.valid {
			t.Errorf("%s: the loader says %v", c.line, found)
		}
		n, _ := source.Parse("f.yaml", []byte(file))
		if err := s.Validate(n.Value()); (err == nil) != c.valid {
			t.Errorf("%s: the schema says %v", c.line, err)
		}
	}
}
