package validate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	_ "github.com/mcpe-gen/mcpe-gen/runtime/events" // implements the codec
)

// objects draws an object of valid and invalid members.
func objects(t *rapid.T) map[string]any {
	scalars := []any{nil, true, 0, 5, 6, -1, 1.5, "", "x", "é", "xx", "xxx", "a b", `"},{"a":"`, "\\", "2026-11-20T08:00:00Z", "a@b.example"}
	var value func(depth int) any
	value = func(depth int) any {
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			return []any{value(depth - 1), value(depth - 1)}
		case kind == 1 && depth > 0:
			return map[string]any{"a": value(depth - 1), `"`: value(depth - 1)}
		}
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	object := map[string]any{}
	for _, name := range []string{"a", "b", "c", `"a":`, "é"} {
		if rapid.Bool().Draw(t, name) {
			object[name] = value(2)
		}
	}
	return object
}

// OCC-4: what Accept accepts is valid, whatever changed. It accepts each valid object that the shape accepts.
func TestMembersAgreeWithTheValidator(t *testing.T) {
	var schemas []*Schema
	for _, text := range append(shaped, `{"oneOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}},{"type":"string"}]}`) {
		schemas = append(schemas, fullOf(t, text))
	}
	agreed := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(schemas).Draw(t, "schema")
		before := objects(t)
		raw, err := codec.Encode(before)
		if err != nil {
			t.Fatal(err)
		}
		m := s.Members(raw)
		if (m != nil) != (s.Validate(raw) == nil) {
			t.Fatalf("%s has the members %v", raw, m)
		}
		if m == nil {
			return
		}
		for range 5 {
			for name, v := range objects(t) {
				if v == "x" {
					delete(before, name)
				} else {
					before[name] = v
				}
			}
			if raw, err = codec.Encode(before); err != nil {
				t.Fatal(err)
			}
			accepted, valid := m.Accept(raw), s.Validate(raw) == nil
			if accepted != valid {
				t.Fatalf("%s after a change: accepted %v, valid %v", raw, accepted, valid)
			}
			agreed[valid]++
		}
	})
	if agreed[true] < 10 || agreed[false] < 10 {
		t.Errorf("few cases: %v", agreed)
	}
}

// A value that is not an object is not accepted, nor is one that is nested too deep.
func TestMembersAccept(t *testing.T) {
	s := fullOf(t, `{"properties":{"a":{},"b":{"type":"string"}},"additionalProperties":false}`)
	m := s.Members(json.RawMessage("{ \"b\" : \"x\" }\n"))
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for text, want := range map[string]bool{
		`{}`: true, `{"b":"x"}`: true, `{"b":"y"}`: true, `{"b":1}`: false, `{"c":"x"}`: false, `{"a":{"b":[",","}"]},"b":"x"}`: true,
		``: false, `null`: false, `[]`: false, `"x"`: false,
		fmt.Sprintf(`{"a":%s}`, deep(wire.MaxDepth-1)): true, fmt.Sprintf(`{"a":%s}`, deep(wire.MaxDepth)): false,
	} {
		if m.Accept(json.RawMessage(text)) != want {
			t.Errorf("%.40s: want %v", text, want)
		}
		if text != "" && text[0] == '{' && (s.Validate(json.RawMessage(text)) == nil) != want {
			t.Errorf("%.40s: the validator disagrees", text)
		}
	}
	if (*Members)(nil).Accept(json.RawMessage(`{}`)) {
		t.Error("nil accepts an object")
	}
	for _, schema := range []string{`{"minProperties":1}`, `{"dependentRequired":{"a":["b"]}}`, `{"patternProperties":{"^a":{}}}`, `{"required":["z"]}`} {
		if fullOf(t, schema).Members(json.RawMessage(`{"a":1,"b":2,"z":3}`)) != nil {
			t.Errorf("%s: the members depend on each other", schema)
		}
	}
}
