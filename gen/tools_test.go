package gen_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
)

// TestToolsFile: the schemas of tools.json, with the $defs of the document put into them, describe what
// those of the read tools do.
func TestToolsFile(t *testing.T) {
	files, err := filepath.Glob("../examples/schemas/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(goldenDir, "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	compared, shared := 0, 0
	for _, file := range append(files, more...) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		at := filepath.Join("../examples/generated", name, name+"server", "tools.json")
		if strings.HasPrefix(file, goldenDir) {
			found, err := filepath.Glob(filepath.Join(filepath.Dir(file), "want", "*", "tools.json"))
			if err != nil || len(found) == 0 {
				continue
			}
			at = found[0]
		}
		content, err := os.ReadFile(at)
		if err != nil {
			continue
		}
		var doc struct {
			Defs  map[string]any `json:"$defs"`
			Tools []struct {
				Name                      string
				InputSchema, OutputSchema map[string]any
			}
		}
		if err := json.Unmarshal(content, &doc); err != nil {
			t.Fatal(at, err)
		}
		shared += len(doc.Defs)
		set, _ := schema.Load([]string{file}, schema.Options{})
		for _, e := range set.Files[0].Events {
			for _, tool := range doc.Tools {
				if tool.Name != toolschema.Name(e.Name) || e.Tool.ArgumentNames != (toolschema.ArgumentNames{}) {
					continue
				}
				input, err := toolschema.InputSchema(set.Published(e.Input), toolschema.ArgumentNames{
					Cursor: toolschema.CursorArgument, MaxEvents: toolschema.MaxEventsArgument, Wait: toolschema.WaitArgument,
					Quiet: toolschema.QuietArgument, Since: toolschema.SinceArgument})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range []struct {
					want json.RawMessage
					got  map[string]any
				}{{input, tool.InputSchema}, {toolschema.OutputSchema(set.Published(e.Payload)), tool.OutputSchema}} {
					var want map[string]any
					if err := json.Unmarshal(c.want, &want); err != nil {
						t.Fatal(err)
					}
					if _, own := c.got["$defs"]; !own {
						c.got["$defs"] = doc.Defs
					}
					compared++
					if m := (&mirror{c.got, want, map[[2]uintptr]bool{}}); !m.same(c.got, want) {
						t.Errorf("%s: the schemas of %s are not those of its event file; run make generate", at, tool.Name)
					}
				}
			}
		}
	}
	if compared < 50 || shared < 20 {
		t.Errorf("only %d schemas with %d shared definitions are compared", compared, shared)
	}
}

// A mirror compares two schemas whose definitions stand in different places.
type mirror struct {
	left, right map[string]any
	seen        map[[2]uintptr]bool
}

func (m *mirror) same(a, b any) bool {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	if okX && okY {
		pair := [2]uintptr{reflect.ValueOf(x).Pointer(), reflect.ValueOf(y).Pointer()}
		if m.seen[pair] {
			return true
		}
		m.seen[pair] = true
		for _, of := range []map[string]any{x, y} {
			for k := range of {
				if _, isMap := of[k].(map[string]any); isMap && (k == "$defs" || k == "definitions") {
					continue
				}
				left, right := x[k], y[k]
				if (left == nil) != (right == nil) {
					return false
				}
				l, isText := left.(string)
				r, _ := right.(string)
				if isText && strings.HasPrefix(l, "#/") {
					left, right = at(m.left, l), at(m.right, r)
					if left == nil || right == nil { // data that looks like a reference
						left, right = l, r
					}
				}
				if !m.same(left, right) {
					return false
				}
			}
		}
		return true
	}
	p, okP := a.([]any)
	q, okQ := b.([]any)
	if okP && okQ && len(p) == len(q) {
		for i := range p {
			if !m.same(p[i], q[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// at follows a pointer of a URI fragment.
func at(doc any, ref string) any {
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := doc.(type) {
		case map[string]any:
			doc = v[token]
		default:
			return nil
		}
	}
	return doc
}

// TestToolsFileKeepsData: definitions go to $defs of the document, and so do references to them; a value
// that looks like such a reference is data.
func TestToolsFileKeepsData(t *testing.T) {
	dir := module(t, map[string]string{"a.yaml": `version: 1
events:
  - name: a.made
    description: Fires when one is made.
    inputSchema: {type: object}
    payloadSchema:
      $schema: http://json-schema.org/draft-07/schema#
      type: object
      properties:
        who: {$ref: '#/definitions/Who'}
        like: {const: {$ref: '#/definitions/Who'}}
      definitions:
        Who: {type: object, properties: {id: {type: string}}}
`})
	p, diags, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"a.yaml"}, Out: "out"})
	if err != nil || p == nil {
		t.Fatal(diagnosticText(diags), err)
	}
	var doc struct {
		Defs  map[string]any `json:"$defs"`
		Tools []struct {
			OutputSchema struct {
				Properties struct {
					Events struct {
						Items struct {
							Properties struct {
								Data struct{ Properties map[string]map[string]any }
							}
						}
					}
				}
			}
		}
	}
	for _, f := range p.Create {
		if filepath.Base(f.Path) == "tools.json" {
			if err := json.Unmarshal(f.Content, &doc); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(doc.Defs) != 1 || len(doc.Tools) != 1 {
		t.Fatalf("%+v", doc)
	}
	members := doc.Tools[0].OutputSchema.Properties.Events.Items.Properties.Data.Properties
	if got := members["who"]["$ref"]; got != "#/$defs/Who" {
		t.Errorf("the reference is %v", got)
	}
	if got := members["like"]["const"]; !reflect.DeepEqual(got, map[string]any{"$ref": "#/definitions/Who"}) {
		t.Errorf("the constant is %v", got)
	}
}
