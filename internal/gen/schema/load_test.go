package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func memory(files map[string]string) schema.Options {
	return schema.Options{ReadFile: func(path string) ([]byte, error) {
		if content, ok := files[filepath.ToSlash(path)]; ok {
			return []byte(content), nil
		}
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}}
}

// Every file is in the set once, whatever the paths that lead to it; given files come first.
func TestFilesOnce(t *testing.T) {
	o := memory(map[string]string{
		"a.yaml":     "version: 1\nschemas: {A: {properties: {c: {$ref: 'sub/c.yaml#/schemas/C'}, b: {$ref: './sub/../b.yaml#/schemas/B'}}}}\n",
		"b.yaml":     "version: 1\nschemas: {B: {properties: {a: {$ref: 'a.yaml#/schemas/A'}}}}\n",
		"sub/c.yaml": "version: 1\nschemas: {C: {properties: {b: {$ref: '../b.yaml#/schemas/B'}}}}\n",
	})
	set, found := schema.Load([]string{"a.yaml", "./a.yaml", "b.yaml"}, o)
	if len(found) > 0 {
		t.Fatal(found)
	}
	var got []string
	for _, f := range set.Files {
		got = append(got, fmt.Sprintf("%s %s %v", filepath.ToSlash(f.Path), f.Stem, f.Given))
	}
	if want := "a.yaml a true, b.yaml b true, sub/c.yaml c false"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestUnreadableFiles(t *testing.T) {
	_, found := schema.Load([]string{"x.yaml", "y.yaml"}, memory(map[string]string{"y.yaml": "version: 2\n"}))
	var got []string
	for _, d := range found {
		got = append(got, d.String())
	}
	want := []string{"x.yaml: error MCPE100: the file cannot be read: file does not exist", "y.yaml:1:10: error MCPE127: version 2 is not known"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

func TestEventDefaultsAndOverrides(t *testing.T) {
	o := memory(map[string]string{"a.yaml": `version: 1
package: p
events:
  - {name: a, description: d, inputSchema: {type: object}, payloadSchema: {type: object}}
  - name: b
    description: d
    delivery: [push, poll]
    replay: false
    stability: experimental
    deprecated: {replacedBy: a, removeAfter: 2027-03-01}
    mcpe: {priority: high, tags: [ops]}
    _meta: {k: v}
    x-go-name: Bee
    x-tool-name: read-b
    x-tool-args: {cursor: after, maxEvents: limit}
    inputSchema: {type: object}
    payloadSchema: {type: object}
  - {name: c, description: d, source: both, inputSchema: {type: object}, payloadSchema: {type: object}}
`})
	set, found := schema.Load([]string{"a.yaml"}, o)
	if len(found) > 0 {
		t.Fatal(found)
	}
	f := set.Files[0]
	a, b, c := f.Events[0], f.Events[1], f.Events[2]
	if f.Package != "p" || a.Source != "emit" || !a.Replay || a.Stability != "stable" || a.Deprecated != nil || a.MCPE != nil || len(a.Delivery) != 0 {
		t.Errorf("defaults: %+v", a)
	}
	if c.Source != "both" || b.Replay || b.Stability != "experimental" || *b.Deprecated != (schema.Deprecated{ReplacedBy: "a", RemoveAfter: "2027-03-01"}) ||
		!b.MCPE.Enabled || b.MCPE.Priority != "high" || fmt.Sprint(b.MCPE.Tags, b.Delivery) != "[ops] [push poll]" || string(b.Meta.JSON()) != `{"k":"v"}` ||
		b.GoName != "Bee" || b.Tool.Name != "read-b" || b.Tool.Cursor != "after" || b.Tool.MaxEvents != "limit" {
		t.Errorf("overrides: %+v", b)
	}
}

func TestResolve(t *testing.T) {
	set, found := schema.Load([]string{"a.yaml"}, memory(map[string]string{
		"a.yaml": "version: 1\nschemas:\n  A: {type: object, properties: {b: {$ref: '#/schemas/B'}, c: {$ref: '#/schemas/B/properties/x'}, d: {$ref: '#'}}}\n  B: {type: object, properties: {x: {type: string}}}\n",
	}))
	if len(found) > 0 {
		t.Fatal(found)
	}
	entries := set.Files[0].Schemas
	for _, c := range []struct {
		at   string
		want *source.Node
	}{
		{"/properties/b", entries[1].Node},
		{"/properties/c", entries[1].Node.Lookup("/properties/x")},
		{"/properties/d", entries[0].Node},
	} {
		target, d := set.Resolve(entries[0].Node.Lookup(c.at))
		if d != nil || target.Node != c.want {
			t.Errorf("%s: %+v %v", c.at, target, d)
		}
	}
	if _, d := set.Resolve(entries[1].Node); d == nil || d.Code != "MCPE140" {
		t.Errorf("without a $ref: %v", d)
	}
}

// manyEvents writes an event file whose events share schemas and carry defaults and x-match.
func manyEvents(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nschemas:\n")
	for i := range n / 10 {
		fmt.Fprintf(&b, "  Person%d: {type: object, properties: {id: {type: string}, boss: {$ref: '#/schemas/Person%d'}}}\n", i, i)
	}
	b.WriteString("events:\n")
	for i := range n {
		fmt.Fprintf(&b, `  - name: thing.created%d
    description: A thing was created.
    inputSchema:
      type: object
      properties:
        kind: {type: string, x-match: /kind}
        since: {type: string, format: date-time, x-match: {path: /at, op: min}}
      additionalProperties: false
    payloadSchema:
      type: object
      properties:
        kind: {type: string, pattern: '^[a-z]+$'}
        at: {type: string, format: date-time}
        by: {$ref: '#/schemas/Person%d'}
      required: [kind, at]
`, i, i%(n/10))
	}
	return b.String()
}

// Loading takes work in proportion to the file; BenchmarkLoad shows the time of 1,000 events.
func TestLoadIsLinear(t *testing.T) {
	allocated := func(n int) uint64 {
		o := memory(map[string]string{"f.yaml": manyEvents(n)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, found := schema.Load([]string{"f.yaml"}, o); len(found) > 0 {
			t.Fatal(found[0])
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated(10) // compiles the metaschemas
	small, large := allocated(20), allocated(320)
	t.Logf("20 events %d bytes, 320 events %d bytes", small, large)
	// Sixteen times the events; a quadratic step would show as 256 times the work.
	if large > 32*small {
		t.Errorf("20 events allocate %d bytes, 320 events %d bytes", small, large)
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := memory(map[string]string{"f.yaml": manyEvents(n)})
			for b.Loop() {
				schema.Load([]string{"f.yaml"}, o)
			}
		})
	}
}

// A $ref into a document of OpenAPI says what makes an event file of it; one into other data says where schemas stand.
func TestRefIntoAnotherFormat(t *testing.T) {
	files := map[string]string{
		"a.yaml":    "version: 1\nschemas:\n  A: {$ref: 'api.yaml#/components/schemas/T'}\n  B: {$ref: 'data.json#/x-schemas/T'}\nevents: []\n",
		"api.yaml":  "openapi: 3.1.0\ninfo: {title: a, version: '1'}\ncomponents: {schemas: {T: {type: object}}}\n",
		"data.json": `{"x-schemas": {"T": {"type": "object"}}}`,
	}
	_, found := schema.Load([]string{"a.yaml"}, memory(files))
	var hints []string
	for _, d := range found {
		if d.Code == "MCPE143" {
			hints = append(hints, d.Hint)
		}
	}
	want := []string{"it is in a document of OpenAPI: mcpe-gen import makes an event file of that document", "put the schema under schemas: or $defs"}
	if diff := cmp.Diff(want, hints); diff != "" {
		t.Errorf("%s\n%v", diff, found)
	}
}
