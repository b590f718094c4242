package evolve_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
)

// A payload whose union lost a variant lost a tag. What the other variants have under the names of its members was there
// before (EVOL-2).
func TestLostVariant(t *testing.T) {
	variant := func(tag, v string) string {
		return `{"type":"object","required":["kind"],"properties":{"kind":{"const":"` + tag + `"},"v":` + v + `,"only` + tag + `":{}}}`
	}
	union := func(variants ...string) string {
		return `{"type":"object","properties":{"u":{"oneOf":[` + strings.Join(variants, ",") + `]}}}`
	}
	a, b, c := variant("a", `{"type":"number"}`), variant("b", `{"type":"string"}`), variant("c", `{"type":"boolean"}`)
	for _, test := range []struct{ name, old, new, want string }{
		{"one of two", union(a, b), union(a), "/properties/u/properties/kind ENUM_NARROWED"},
		{"the first of two", union(a, b), union(b), "/properties/u/properties/kind ENUM_NARROWED"},
		{"one of three", union(a, b, c), union(a, c), "/properties/u/properties/kind ENUM_NARROWED"},
		{"two of three", union(a, b, c), union(b), "/properties/u/properties/kind ENUM_NARROWED; /properties/u/properties/kind ENUM_NARROWED"},
		{"one that stayed has another type", union(a, b), union(variant("a", `{"type":"boolean"}`)),
			"/properties/u/properties/v PAYLOAD_TYPE_CHANGED; /properties/u/properties/kind ENUM_NARROWED"},
		{"another tag for the same", union(a, b), union(a, strings.ReplaceAll(b, `"b"`, `"z"`)), "/properties/u/properties/kind ENUM_NARROWED; /properties/u PAYLOAD_VARIANT_ADDED"},
	} {
		if got := differences(evolve.PayloadSchema, test.old, test.new); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// An argument that takes null in a variant of a oneOf is compared if no other variant takes the new values; otherwise a
// value that was valid may match two variants (EVOL-3).
func TestNullInAVariant(t *testing.T) {
	const (
		incomparable = "/properties/w SCHEMA_INCOMPARABLE"
		null         = `["string","null"]`
		orNull       = `{"anyOf":[{"type":"string"},{"type":"null"}]}`
	)
	union := func(variants ...string) string {
		return `{"type":"object","properties":{"w":{"oneOf":[` + strings.Join(variants, ",") + `]}},"additionalProperties":false}`
	}
	open := func(name, v string) string {
		return `{"type":"object","properties":{"` + name + `":{"type":"string"},"v":` + v + `},"required":["` + name + `"]}`
	}
	text, number := `{"type":"string"}`, `{"type":"integer"}`
	for _, test := range []struct{ name, old, new, want string }{
		{"refused by the other variant", union(open("s", text), open("t", number)), union(open("s", `{"type":`+null+`}`), open("t", number)), ""},
		{"as a choice", union(open("s", text), open("t", number)), union(open("s", orNull), open("t", number)), ""},
		{"taken by the other variant", union(open("s", text), open("t", `{"type":["integer","null"]}`)), union(open("s", `{"type":`+null+`}`), open("t", `{"type":["integer","null"]}`)), incomparable},
		{"of a member that the other variant does not know", union(open("s", text), `{"type":"object","required":["t"]}`), union(open("s", `{"type":`+null+`}`), `{"type":"object","required":["t"]}`), incomparable},
		{"of a member that the other variant forbids", union(open("s", text), `{"type":"object","properties":{"s":{}},"additionalProperties":false}`),
			union(open("s", `{"type":`+null+`}`), `{"type":"object","properties":{"s":{}},"additionalProperties":false}`), ""},
		{"and another bound", union(open("s", text), open("t", number)), union(open("s", `{"type":`+null+`,"maxLength":9}`), open("t", number)), "/properties/w/properties/v INPUT_BOUND_TIGHTENED; " + incomparable},
		{"of a nested member", union(open("s", object(text)), open("t", object(number))), union(open("s", object(`{"type":`+null+`}`)), open("t", object(number))), ""},
		{"both variants", union(open("s", text), open("t", number)), union(open("s", `{"type":`+null+`}`), open("t", `{"type":["integer","null"]}`)), incomparable},
	} {
		got := differences(evolve.InputSchema, test.old, test.new)
		if parts := strings.Split(got, "; "); len(parts) == 2 && test.want == parts[1]+"; "+parts[0] {
			got = test.want
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
