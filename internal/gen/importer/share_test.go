package importer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// document writes the event file for payloads of a third-party document, named a, b and so on.
func document(t *testing.T, components map[string]string, previous *source.Node, payloads ...string) string {
	t.Helper()
	var doc importer.Document
	for _, name := range slices.Sorted(maps.Keys(components)) {
		doc.Schemas = append(doc.Schemas, importer.Schema{Name: name, Node: parse(t, components[name])})
	}
	for i, p := range payloads {
		doc.Events = append(doc.Events, importer.Event{Descriptor: descriptor(string(rune('a'+i)), object, p)})
	}
	text, found, err := importer.Write(doc, importer.Options{Previous: previous})
	if err != nil || len(found) > 0 {
		t.Fatal(err, found)
	}
	load(t, text)
	_, content, _ := strings.Cut(string(text), "version: 1\n")
	return content
}

func parse(t *testing.T, text string) *source.Node {
	t.Helper()
	n, found := source.Parse("a.yaml", []byte(text))
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	return n
}

const (
	user = `{"title":"User","type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"site":{"type":"string"}},"required":["id","name"]}`
	// same accepts the same values.
	same  = `{"type":"object","description":"Who did it.","required":["name","id"],"properties":{"site":{"description":"S.","type":"string"},"name":{"type":"string"},"id":{"type":"string"}}}`
	named = `{"$id":"#of","type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"site":{"type":"string"}},"required":["id","name"]}`
	days  = `{"type":"string","enum":["mon","tue","wed"]}`
	pair  = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}`
)

func holder(members ...string) string {
	var list []string
	for i := 0; i < len(members); i += 2 {
		list = append(list, `"`+members[i]+`":`+members[i+1])
	}
	return `{"type":"object","properties":{` + strings.Join(list, ",") + `}}`
}

// levels is an enumeration of three values with names, of which the first is given.
func levels(values, first string) string {
	return `{"type":"integer","enum":[` + values + `],"x-enum-varnames":["` + first + `","Middle","High"]}`
}

// Objects of three or more members, enumerations of three or more values and unions that occur twice are written once,
// the outermost ones first. An inner one that occurs elsewhere too is shared as well.
func TestRepeatedObjectsAreShared(t *testing.T) {
	outer := holder("author", user, "size", `{"type":"integer"}`, "at", pair)
	for _, c := range []struct {
		name       string
		components map[string]string
		payloads   []string
		has, lacks []string
	}{
		{"title and description", nil, []string{holder("by", user), holder("owner", same)},
			[]string{"schemas:\n  User:\n", "by: {$ref: '#/schemas/User'}", "owner: {$ref: '#/schemas/User', description: Who did it.}"}, nil},
		{"member", nil, []string{holder("by", same), holder("owner", same, "by", same)}, []string{"  By:\n", "owner: {$ref: '#/schemas/By'}"}, []string{"User"}},
		{"items", nil, []string{holder("by", `{"type":"array","items":`+same+`}`, "by2", `{"type":"array","items":`+same+`}`)}, []string{"  ByItem:\n", "by: {type: array, items: {$ref: '#/schemas/ByItem'}}"}, nil},
		{"two members", nil, []string{holder("at", pair), holder("at", pair)}, nil, []string{"schemas:"}},
		{"once", nil, []string{holder("by", user)}, nil, []string{"schemas:"}},
		{"outermost", nil, []string{holder("post", outer), holder("post", outer)}, []string{"  Post:\n", "post: {$ref: '#/schemas/Post'}", "author:\n"}, []string{"  User:\n"}},
		{"inner elsewhere", nil, []string{holder("post", outer), holder("post", outer, "by", user)}, []string{"  Post:\n", "author: {$ref: '#/schemas/User'}", "by: {$ref: '#/schemas/User'}"}, nil},
		{"other shape", nil, []string{holder("by", user), holder("by", strings.Replace(user, `"integer"`, `"string"`, 1), "of", strings.Replace(user, `,"name"]`, `]`, 1), "at", strings.Replace(user, `,"name"]`, `]`, 1))},
			[]string{"  User:\n", "  User2:\n", "of: {$ref: '#/schemas/User2'}"}, nil},
		{"component", map[string]string{"person": user}, []string{holder("by", user)}, []string{"by: {$ref: '#/schemas/person'}"}, []string{"User:"}},
		{"two components", map[string]string{"p": user, "q": user}, []string{holder("by", `{"$ref":"#/schemas/q"}`)}, []string{"  p:\n    title: User", "  q:\n    title: User"}, nil},
		{"name in use", map[string]string{"user": pair}, []string{holder("by", user, "of", user, "at", `{"$ref":"#/schemas/user"}`)}, []string{"  User2:\n"}, nil},
		{"values", nil, []string{holder("day", days), holder("due", `{"description":"When.","type":"string","enum":["wed","tue","mon"]}`)},
			[]string{"schemas:\n  Day:", "day: {$ref: '#/schemas/Day'}", "due: {$ref: '#/schemas/Day', description: When.}"}, nil},
		{"values of another name", nil, []string{holder("day", days, "order", holder("day", `{"title":"Day","enum":[1,2,3]}`)), holder("day", days, "order", holder("day", `{"enum":[1,2,3]}`))},
			[]string{"day: {$ref: '#/schemas/Day'}", "day: {$ref: '#/schemas/DayOfOrder'}"}, nil},
		{"names of values", nil, []string{holder("speed", levels("1,2,3", "Low")), holder("state", levels("1,2,3", "Off"), "on", levels("3,2,1", "Low"))}, nil, []string{"schemas:"}},
		{"same names of values", nil, []string{holder("speed", levels("1,2,3", "Low")), holder("speed", levels("1,2,3", "Low"))}, []string{"speed: {$ref: '#/schemas/Speed'}"}, nil},
		{"two values", nil, []string{holder("day", `{"enum":["mon","tue"]}`), holder("day", `{"enum":["mon","tue"]}`)}, nil, []string{"schemas:"}},
		{"union", nil, []string{holder("id", `{"anyOf":[{"type":"string"},{"type":"integer"}]}`), holder("id", `{"anyOf":[{"type":"string"},{"type":"integer"}]}`)},
			[]string{"  ID:\n    anyOf:", "id: {$ref: '#/schemas/ID'}"}, nil},
		{"or null", nil, []string{holder("id", `{"anyOf":[{"type":"string"},{"type":"null"}]}`), holder("id", `{"anyOf":[{"type":"string"},{"type":"null"}]}`)}, nil, []string{"schemas:"}},
		{"allOf", nil, []string{`{"allOf":[` + user + `],"type":"object"}`, `{"allOf":[` + user + `],"type":"object"}`}, nil, []string{"schemas:"}},
		{"reference inside", map[string]string{"c": holder("by", holder("x", user, "y", pair, "z", pair))},
			[]string{holder("by", holder("x", user, "y", pair, "z", pair), "at", `{"$ref":"#/schemas/c/properties/by/properties/y"}`)}, []string{"$ref: '#/schemas/c/properties/by/properties/y'"}, []string{"By:"}},
		{"root", nil, []string{holder("a", user, "again", `{"$ref":"#"}`), holder("b", user, "c", user)}, []string{"  User:\n", "again: {$ref: '#'}"}, []string{"a: {$ref"}},
		{"definitions", nil, []string{
			`{"type":"object","properties":{"by":{"$ref":"#/$defs/u"},"at":{"$ref":"#/$defs/once"}},"$defs":{"u":{"type":"object","properties":{"boss":{"$ref":"#/$defs/u"},"at":{"$ref":"#/$defs/at"}}},"at":` + pair + `,"once":` + user + `}}`,
			`{"type":"object","properties":{"of":{"$ref":"#/$defs/u"},"at":{"$ref":"#/$defs/at"}},"$defs":{"at":` + pair + `,"u":{"type":"object","properties":{"at":{"$ref":"#/$defs/at"},"boss":{"$ref":"#/$defs/u"}}},"unused":` + pair + `}}`,
			`{"type":"object","properties":{"of":{"$ref":"#/$defs/u"}},"$defs":{"u":` + pair + `}}`,
		}, []string{"  u:\n", "  at:\n", "by: {$ref: '#/schemas/u'}", "of: {$ref: '#/$defs/u'}", "at: {$ref: '#/$defs/once'}", "boss: {$ref: '#/schemas/u'}"}, []string{"u_2"}},
		{"names", nil, []string{
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"by":{"$ref":"#/definitions/u"},"of":` + named + `},"definitions":{"u":` + user + `}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"by":{"$ref":"#/definitions/u"}},"definitions":{"u":` + strings.Replace(named, "of", "by", 1) + `}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"by":` + named + `,"of":{"$ref":"#of"}}}`,
		}, []string{"  u:\n", "of: {$ref: '#/schemas/u'}", "of: {$ref: '#of'}", "$id: '#of'"}, nil},
		{"draft-07", nil, []string{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"by":` + user + `,"of":` + user + `}}`, holder("by", user)},
			[]string{"  User:\n    $schema: http://json-schema.org/draft-07/schema#\n"}, []string{"User2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := document(t, c.components, nil, c.payloads...)
			for _, want := range c.has {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			for _, no := range c.lacks {
				if strings.Contains(got, no) {
					t.Errorf("%q in\n%s", no, got)
				}
			}
		})
	}
}

// At the next import an equal shape keeps its name, also one that the author has chosen, and a new one takes no name
// that an equal shape has.
func TestSharedNamesAreKept(t *testing.T) {
	other := strings.Replace(user, `"site"`, `"mail"`, 1)
	outer := holder("author", user, "size", `{"type":"integer"}`, "at", pair)
	first := document(t, nil, nil, holder("by", user, "of", user, "post", outer, "last", outer))
	renamed := parse(t, "version: 1\n"+strings.NewReplacer("User:", "Person:", "schemas/User", "schemas/Person").Replace(first))
	again := document(t, nil, renamed, holder("to", other, "from", other), holder("by", user, "of", user, "post", outer, "last", outer))
	for _, want := range []string{"  Person:\n    title: User\n", "author: {$ref: '#/schemas/Person'}", "  Post:\n", "to: {$ref: '#/schemas/User'}"} {
		if !strings.Contains(again, want) {
			t.Errorf("no %q in\n%s\nafter\n%s", want, again, first)
		}
	}
	equal := `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/b"}},"$defs":{"a":` + user + `,"b":` + user + `}}`
	both := document(t, nil, nil, equal, equal)
	if again := document(t, nil, parse(t, "version: 1\n"+both), equal, equal); again != both {
		t.Errorf("%s\nand then\n%s", both, again)
	}
	numbered := document(t, nil, nil, holder("to", other, "from", other, "by", user, "of", user))
	swapped := document(t, nil, parse(t, "version: 1\n"+numbered), holder("by", user, "of", user, "to", other, "from", other))
	if !strings.Contains(numbered, "to: {$ref: '#/schemas/User'}") || !strings.Contains(swapped, "to: {$ref: '#/schemas/User'}") || !strings.Contains(swapped, "by: {$ref: '#/schemas/User2'}") {
		t.Errorf("%s\nand then\n%s", numbered, swapped)
	}
	changed := document(t, nil, parse(t, "version: 1\n"+numbered), holder("to", other, "from", other, "by", same, "of", same, "x", holder("a", pair, "b", pair, "c", pair)))
	if strings.Count(changed, "#/schemas/User2") != 2 {
		t.Errorf("%s\nand then\n%s", numbered, changed)
	}
}

// shapes makes random schemas that repeat.
type shapes struct {
	*rand.Rand
	made []string
}

// add makes a schema repeat.
func (s *shapes) add(made string) string {
	s.made = append(s.made, made)
	return made
}

func (s *shapes) schema(depth int) string {
	switch n := s.IntN(15); {
	case n < 4 && len(s.made) > 0:
		return s.made[s.IntN(len(s.made))]
	case n < 7 && depth > 0:
		var list []string
		for i := range 2 + s.IntN(3) {
			list = append(list, fmt.Sprintf(`"m%d":%s`, i, s.schema(depth-1)))
		}
		extra := []string{"", `,"required":["m0"]`, `,"additionalProperties":false`, `,"title":"T"`, `,"description":"D."`, `,"$id":"#"`}[s.IntN(6)]
		return s.add(`{"type":"object","properties":{` + strings.Join(list, ",") + `}` + extra + `}`)
	case n < 8 && depth > 0:
		return `{"type":"array","items":` + s.schema(depth-1) + `,"maxItems":3}`
	case n == 8 && depth > 0:
		return `{"anyOf":[` + s.schema(depth-1) + `,{"type":"null"}]}`
	case n == 9:
		return `{"$ref":"#/$defs/d` + fmt.Sprint(s.IntN(3)) + `"}`
	case n == 10:
		return `{"$ref":"#/schemas/c"}`
	case n == 11:
		return s.add(`{"enum":["a","b",` + []string{`"c"`, `null`, `3`}[s.IntN(3)] + `]}`)
	case n > 11 && depth > 0:
		return s.add(`{"` + []string{"anyOf", "oneOf"}[s.IntN(2)] + `":[` + s.schema(depth-1) + `,` + s.schema(depth-1) + `]}`)
	}
	return []string{`{"type":"string"}`, `{"type":"integer","minimum":3}`, `{"type":["boolean","null"]}`, `{"enum":["a","b"]}`}[s.IntN(4)]
}

// inDialect makes a draft-07 schema, whose $ids are names, in odd rounds.
func inDialect(round uint64, schema string) string {
	if round%2 == 0 {
		return strings.ReplaceAll(schema, `,"$id":"#"`, "")
	}
	for i := 0; strings.Contains(schema, `"#"`); i++ {
		schema = strings.Replace(schema, `"#"`, fmt.Sprintf(`"#/%d"`, i), 1)
	}
	return `{"$schema":"http://json-schema.org/draft-07/schema#",` + strings.ReplaceAll(schema, "$defs", "definitions")[1:]
}

// Sharing changes neither which values are valid nor what is published in a way that breaks receivers.
func TestSharingKeepsValues(t *testing.T) {
	sharedRounds := 0
	for round := range uint64(40) {
		s := &shapes{Rand: rand.New(rand.NewPCG(round, 1))}
		var defs []string
		for i := range 3 {
			defs = append(defs, fmt.Sprintf(`"d%d":%s`, i, s.schema(i)))
		}
		var payloads []string
		for range 3 {
			payloads = append(payloads, inDialect(round, `{"type":"object","properties":{"p":`+s.schema(3)+`,"q":`+s.schema(3)+`},"$defs":{`+strings.Join(defs, ",")+`}}`))
		}
		var doc importer.Document
		for i, p := range payloads {
			doc.Events = append(doc.Events, importer.Event{Descriptor: descriptor(string(rune('a'+i)), object, p)})
		}
		doc.Schemas = []importer.Schema{{Name: "c", Node: parse(t, inDialect(round, holder("m0", `{"type":"string"}`, "m1", `{"type":"string"}`, "m2", `{"type":"string"}`)))}}
		before := "version: 1\nschemas:\n  c: " + string(doc.Schemas[0].Node.JSON()) + "\nevents:\n"
		for i, p := range payloads {
			before += fmt.Sprintf("  - {name: %c, description: About it., delivery: [poll], inputSchema: {type: object}, payloadSchema: %s}\n", 'a'+i, p)
		}
		old, problems := schema.Load([]string{"old.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(before), nil }})
		if source.HasErrors(problems) {
			continue // a definition refers to itself
		}
		now, found, err := importer.Write(doc, importer.Options{})
		if err != nil || len(found) > 0 {
			t.Fatalf("round %d: %v %v\n%s", round, err, found, before)
		}
		changed := load(t, now)
		if len(changed.Files[0].Schemas) > 1 {
			sharedRounds++
		}
		if ds := breaking.Compare([]breaking.Package{{Set: old}}, []breaking.Package{{Set: changed}}, breaking.Options{}); len(ds) > 0 {
			t.Errorf("round %d: %v\n%s\n%s", round, ds, before, now)
		}
		for i := range payloads {
			agree(t, old, changed, i)
		}
		if t.Failed() {
			t.Fatalf("round %d:\n%s\n%s", round, before, now)
		}
	}
	if sharedRounds < 30 {
		t.Errorf("%d rounds had something to share", sharedRounds)
	}
}

// agree tries values of an event in both versions.
func agree(t *testing.T, old, changed *schema.Set, event int) {
	t.Helper()
	var judges [2]*validate.Schema
	var values []json.RawMessage
	for i, set := range []*schema.Set{old, changed} {
		shared := set.Shared(set.Files[0].Events[event].Payload)
		var err error
		if judges[i], err = new(validate.Library).Compile(shared); err != nil {
			t.Fatal(err)
		}
		values = append(values, new(sample.Maker).Values(shared, 6)...)
	}
	for _, v := range values {
		for _, altered := range append(alterations(t, v), v) {
			if a, b := judges[0].Validate(altered), judges[1].Validate(altered); (a == nil) != (b == nil) {
				t.Errorf("%s: %v before and %v now", altered, a, b)
			}
		}
	}
}

// alterations returns the value with each of its parts replaced by a number, and removed.
func alterations(t *testing.T, value json.RawMessage) []json.RawMessage {
	t.Helper()
	canonical, err := wire.Canonical(value)
	if err != nil {
		t.Fatal(err)
	}
	n := parse(t, string(canonical))
	var out []json.RawMessage
	var visit func(*source.Node)
	visit = func(at *source.Node) {
		for i, m := range at.Members {
			at.Members[i].Value = &source.Node{Kind: source.Number, Text: "7"}
			out = append(out, n.JSON())
			at.Members[i].Value = m.Value
			visit(m.Value)
		}
		all := at.Members
		for i := range all {
			at.Members = slices.Delete(slices.Clone(all), i, i+1)
			out = append(out, n.JSON())
		}
		at.Members = all
		for _, item := range at.Items {
			visit(item)
		}
	}
	visit(n)
	return out
}
