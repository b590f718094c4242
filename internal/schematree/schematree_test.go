package schematree_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

func parse(t *testing.T, text string) schematree.Node {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return schematree.NewNode(v)
}

// A document resolves references as a Local does. alone overrides the dialect.
type document struct {
	schematree.Local
	alone bool
}

func (d document) RefAlone(schematree.Node) bool { return d.alone }

func at(n schematree.Node) string { return n.Identity().(string) }

// Every keyword that holds schemas gives each of them once; data and unknown keywords hold none.
func TestEach(t *testing.T) {
	text := `{"items":[{},{}],"properties":{"a":{},"items":true},"not":{},"dependencies":{"a":["b"],"b":{}},"enum":[{}],"const":{"not":{}},
		"required":["a"],"unknown":{"not":{}},"prefixItems":[{}],"$defs":{"d":{}}}`
	for _, c := range []struct {
		dialect *schematree.Dialect
		want    string
	}{
		{schematree.Any, "/$defs/d /dependencies/b /items/0 /items/1 /not /prefixItems/0 /properties/a /properties/items"},
		{schematree.Draft2020, "/$defs/d /dependencies/b /items /not /prefixItems/0 /properties/a /properties/items"},
		{schematree.Draft07, "/$defs/d /dependencies/b /items/0 /items/1 /not /properties/a /properties/items"},
	} {
		var got []string
		schematree.Each(c.dialect, parse(t, text), func(keyword, name string, inner schematree.Node) {
			got = append(got, at(inner))
			if want := "/" + keyword + "/" + name; name != "" && at(inner) != want {
				t.Errorf("%s is called %s", at(inner), want)
			}
		})
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", c.dialect.Name, got)
		}
	}
}

// Views end in a circle, and follow only the given keywords; in draft-07 a $ref stands alone.
func TestViews(t *testing.T) {
	const text = `{"$ref":"#/$defs/a","allOf":[{"$anchor":"part"},true],"oneOf":[{"not":{}}],
		"$defs":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#part"},{"$ref":"other.json"},{"$ref":"#/gone"}]}}}`
	for _, c := range []struct {
		doc      document
		keywords []string
		want     string
	}{
		{document{}, schematree.Unconditional, " /$defs/a /allOf/0 /allOf/1"},
		{document{}, schematree.Alternative, " /$defs/a /$defs/a/anyOf/0 /$defs/a/anyOf/1 /allOf/0 /$defs/a/anyOf/2 /$defs/a/anyOf/3 /allOf/1 /oneOf/0"},
		{document{alone: true}, schematree.Unconditional, " /$defs/a"},
		{document{alone: true}, []string{"allOf"}, ""},
	} {
		if got := places(schematree.Views(c.doc, parse(t, text), c.keywords)); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
}

func TestTypes(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{}`, "null or boolean or number or string or array or object"},
		{`{"type":"integer"}`, "integer"},
		{`{"type":["integer","number","null"]}`, "null or number"},
		{`{"type":"int"}`, ""},
		{`{"type":3}`, ""},
	} {
		if got := schematree.Declared(parse(t, c.schema)).String(); got != c.want {
			t.Errorf("%s: %s", c.schema, got)
		}
	}
	for text, want := range map[string]schematree.Types{
		"null": schematree.Null, "true": schematree.Boolean, "1.0": schematree.Integer, "1e2": schematree.Integer, "1.5": schematree.Fraction,
		"1e300": schematree.Integer, "1e-3": schematree.Fraction, "0e9": schematree.Integer, `"1"`: schematree.String, "[]": schematree.Array, "{}": schematree.Object,
		"9007199254740993.5": schematree.Fraction,
	} {
		if got := schematree.TypeOf(parse(t, text).Value()); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if got := schematree.Fraction.String(); got != "non-integer number" {
		t.Error(got)
	}
}

func TestImplied(t *testing.T) {
	for _, test := range []struct {
		schemas []string
		want    string
	}{
		{[]string{`{"title":"a","not":{},"enum":[1],"x-a":1}`}, "[] "},
		{[]string{`{"minimum":1}`, `{"unevaluatedItems":false,"maxContains":1}`}, "[array number] maxContains"},
		{[]string{`{"contentSchema":{}}`, `{"minProperties":1}`, `{"dependencies":{}}`}, "[object string] minProperties"},
	} {
		var schemas []schematree.Node
		for _, text := range test.schemas {
			schemas = append(schemas, parse(t, text))
		}
		if types, keyword := schematree.Implied(schemas); fmt.Sprintln(types, keyword) != test.want+"\n" {
			t.Errorf("%s imply %v by %s, want %s", test.schemas, types, keyword, test.want)
		}
	}
}

func TestResolve(t *testing.T) {
	root := parse(t, `{"$defs":{"a/b":{"items":[{"$id":"#old"}]},"x%y":{},"~":{}},"enum":[{"$anchor":"data"}]}`)
	for ref, want := range map[string]string{
		"#": "", "#/$defs/a~1b/items/0": "/$defs/a/b/items/0", "#/%24defs/x%25y": "/$defs/x%y", "#/$defs/~0": "/$defs/~", "#old": "/$defs/a/b/items/0",
		"#/$defs/a~1b/items/00": "none", "#/$defs/a~1b/items/1": "none", "#/$defs/~2": "none", "#/%zz": "none", "a.json#": "none", "#data": "none", "#/$defs/a": "none",
	} {
		at := "none"
		if n, ok := schematree.Resolve(root, ref); ok {
			at = n.Identity().(string)
		}
		if at != want {
			t.Errorf("%s: %s, want %s", ref, at, want)
		}
	}
}

func TestDefinition(t *testing.T) {
	defs := []*published.Schema{{Name: "a"}, {Name: "b/c"}}
	for ref, want := range map[string]string{
		"#/$defs/a": "a ", "#/$defs/b~1c/items/0": "b/c /items/0", "#/%24defs/a/x~1y": "a /x~1y",
		"#/definitions/a": "", "#/$defs/d": "", "#/$defs/a~": "", "#/$defs": "", "x#/$defs/a": "",
	} {
		got := ""
		if d, rest, ok := schematree.Definition(defs, "$defs", ref); ok {
			got = d.Name + " " + rest
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
}

func TestDialectOf(t *testing.T) {
	for uri, want := range map[string]*schematree.Dialect{
		"http://json-schema.org/draft-07/schema": schematree.Draft07, "https://json-schema.org/draft-07/schema#": schematree.Draft07,
		"https://json-schema.org/draft/2020-12/schema": schematree.Draft2020, "http://json-schema.org/draft-04/schema#": nil, "": nil,
	} {
		if got := schematree.DialectOf(uri); got != want {
			t.Errorf("%s: %v", uri, got)
		}
	}
}

// Members and elements are described as in 2020-12 and draft-07: additional ones only by the schemas that do not name them.
func TestMemberAndElement(t *testing.T) {
	for _, c := range []struct{ schema, name, want string }{
		{`{"properties":{"a":{}},"patternProperties":{"^a":{},"b":{}},"additionalProperties":{}}`, "a", "/properties/a /patternProperties/^a"},
		{`{"properties":{"a":false},"additionalProperties":{}}`, "a", "/properties/a"},
		{`{"properties":{"a":{}},"additionalProperties":false}`, "b", "/additionalProperties"},
		{`{"properties":{"a":{}}}`, "b", ""},
	} {
		views := []schematree.Node{parse(t, c.schema)}
		if got := places(schematree.Member(views, c.name)); got != c.want {
			t.Errorf("%s of %s: %s", c.name, c.schema, got)
		}
		if got := places(schematree.Member(append(views, parse(t, `{"additionalProperties":{}}`)), c.name)); got != strings.TrimSpace(c.want+" /additionalProperties") {
			t.Errorf("%s of %s and another: %s", c.name, c.schema, got)
		}
	}
	for _, c := range []struct{ schema, want string }{
		{`{"items":{}}`, "/items|/items"},
		{`{"prefixItems":[{}],"items":{}}`, "/prefixItems/0|/items"},
		{`{"prefixItems":[{}]}`, "/prefixItems/0|"},
		{`{"items":[{}],"additionalItems":{}}`, "/items/0|/additionalItems"},
		{`{"items":[{}]}`, "/items/0|"},
		{`{}`, "|"},
	} {
		views := []schematree.Node{parse(t, c.schema)}
		if got := places(schematree.Element(views, 0)) + "|" + places(schematree.Element(views, 1)); got != c.want {
			t.Errorf("%s: %s", c.schema, got)
		}
	}
}

func places(all []schematree.Node) string {
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = at(v)
	}
	return strings.Join(list, " ")
}
