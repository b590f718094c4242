package breaking_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
)

// head begins a file with a shared schema that three event types refer to.
func head(severity string) string {
	return "version: 1\nschemas:\n  Severity: " + severity + "\nevents:\n"
}

const referring = `  - {name: a, description: A., inputSchema: {type: object, properties: {s: {$ref: '#/schemas/Severity'}}}, payloadSchema: {type: object, properties: {s: {$ref: '#/schemas/Severity'}}}}
  - {name: b, description: B., inputSchema: {type: object}, payloadSchema: {type: object, properties: {s: {$ref: '#/schemas/Severity'}}}}
`

// What changed in a shared schema is reported once, there, with all that it concerns counted.
func TestSharedSchemaIsReportedOnce(t *testing.T) {
	got := text(compare(t, head("{type: string, enum: [x, y]}")+referring, head("{type: string, enum: [x]}")+referring))
	want := "new.yaml:3:3: error ENUM_NARROWED: a inputSchema/properties/s and 2 more places: no longer has \"y\"\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Event types of other packages are found, ids of packages decide about Go only.
func TestPackages(t *testing.T) {
	const a = "version: 1\nevents:\n  - {name: a, description: A., inputSchema: {type: object}, payloadSchema: {type: object}}\n"
	const b = "version: 1\nevents:\n  - {name: b, description: B., inputSchema: {type: object}, payloadSchema: {type: object}}\n"
	load := func(key, content string) breaking.Package {
		p := version(t, key+".yaml", []byte(content))[0]
		p.Key, p.Go = key, ir.Options{Package: key}
		return p
	}
	old := []breaking.Package{load("one", a), load("two", b)}
	moved := []breaking.Package{load("one", b), load("two", a)}
	if found := breaking.Compare(old, moved, breaking.Options{}); len(found) > 0 {
		t.Errorf("%s", text(found))
	}
	found := text(breaking.Compare(old, moved, breaking.Options{Rules: rule.Selection{Use: []string{breaking.Source}}}))
	for _, want := range []string{"RegisterA: registration is gone", "RegisterB: registration is gone"} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is not in %s", want, found)
		}
	}
	found = text(breaking.Compare(old, []breaking.Package{load("one", a), load("three", b)}, breaking.Options{Rules: rule.Selection{Use: []string{breaking.Wire, breaking.Source}}}))
	if found != "two.yaml: error GO_PACKAGE_CHANGED: package two: the package is no longer generated\n" {
		t.Errorf("got %s", found)
	}
}

// The packages for servers and clients are compared by their directories, where a configuration names both.
func TestPlaces(t *testing.T) {
	const a = "version: 1\nevents:\n  - {name: a, description: A., inputSchema: {type: object}, payloadSchema: {type: object}}\n"
	place := func(server, client string) []breaking.Package {
		p := version(t, "a.yaml", []byte(a))[0]
		p.Go, p.Server, p.Client = ir.Options{Package: "a"}, server, client
		return []breaking.Package{p}
	}
	old := place("a/aserver", "a/aclient")
	for want, now := range map[string][]breaking.Package{
		"": old,
		"a.yaml: error GO_PACKAGE_CHANGED: package a/aserver: the package is in serve now\n":        place("serve", "a/aclient"),
		"a.yaml: error GO_PACKAGE_CHANGED: package a/aclient: the package is no longer generated\n": place("a/aserver", ""),
	} {
		if found := text(breaking.Compare(old, now, breaking.Options{Rules: rule.Selection{Use: []string{breaking.Source}}})); found != want {
			t.Errorf("got %q, want %q", found, want)
		}
	}
	if found := breaking.Compare(place("", ""), old, breaking.Options{Rules: rule.Selection{Use: []string{breaking.Source}}}); len(found) > 0 {
		t.Error(text(found))
	}
}

// What is experimental in the old version may change in any way; becoming experimental exempts nothing.
func TestExperimental(t *testing.T) {
	const stable = "version: 1\nevents:\n  - name: a\n    description: A.\n    inputSchema: {type: object}\n    payloadSchema: {type: object, properties: {id: {type: string}}}\n"
	experimental := strings.Replace(stable, "    inputSchema", "    stability: experimental\n    inputSchema", 1)
	changed := strings.Replace(experimental, "id:", "key:", 1)
	for _, use := range breaking.Categories {
		if found := compare(t, experimental, changed, use); len(found) > 0 {
			t.Errorf("%s: %s", use, text(found))
		}
	}
	if found := text(compare(t, stable, changed)); !strings.Contains(found, "STABILITY_LOWERED") || !strings.Contains(found, "FIELD_REMOVED") {
		t.Errorf("got %s", found)
	}
}

// Exceptions by event and rule, and the label of old files.
func TestSelection(t *testing.T) {
	const old = "version: 1\nevents:\n  - {name: a, description: A., inputSchema: {type: object}, payloadSchema: {type: object, properties: {id: {type: string}}}}\n"
	now := strings.Replace(old, "{id: {type: string}}", "{}", 1)
	packages := version(t, "old.yaml", []byte(old))
	packages[0].Label = func(path string) string { return "main:" + path }
	for _, c := range []struct {
		rules rule.Selection
		want  string
	}{
		{rule.Selection{}, "new.yaml:3:61: error FIELD_REMOVED: a payloadSchema/properties/id: field removed or renamed\n  main:old.yaml:3:104: it was here\n"},
		{rule.Selection{Use: []string{breaking.Wire}, Except: []string{"FIELD_REMOVED"}}, ""},
		{rule.Selection{Use: []string{breaking.Wire}, Ignore: []rule.Ignore{{Event: "a"}}}, ""},
		{rule.Selection{Use: []string{breaking.Wire}, Ignore: []rule.Ignore{{Event: "a", Rules: []string{breaking.Wire}}}}, ""},
		{rule.Selection{Use: []string{breaking.Wire}, Ignore: []rule.Ignore{{Path: "new.yaml"}}}, ""},
	} {
		if diff := cmp.Diff(c.want, text(breaking.Compare(packages, version(t, "new.yaml", []byte(now)), breaking.Options{Rules: c.rules}))); diff != "" {
			t.Errorf("%+v -want +got:\n%s", c.rules, diff)
		}
	}
}

// Paths lead through references, unions, tuples of both dialects and maps.
func TestPackageDirectories(t *testing.T) {
	file := func(list, member, tuple string) string {
		return `version: 1
schemas:
  Item: {type: object, properties: {v: ` + list + `}}
events:
  - name: a
    description: A.
    inputSchema: {type: object}
    payloadSchema:
      $schema: http://json-schema.org/draft-07/schema#
      type: object
      properties:
        list: {type: array, items: {$ref: '#/definitions/Item'}}
        map: {type: object, additionalProperties: ` + member + `}
        pair: {type: array, items: [{type: string}, ` + tuple + `]}
      definitions:
        Item: {allOf: [{type: object, properties: {v: ` + list + `}}]}
`
	}
	got := text(compare(t, file("{type: string}", "{type: string}", "{type: string}"), file("{type: boolean}", "{type: boolean}", "{type: boolean}")))
	want := `new.yaml:13:29: error PAYLOAD_TYPE_CHANGED: a payloadSchema/properties/map/additionalProperties: was string and may now be boolean
new.yaml:14:53: error PAYLOAD_TYPE_CHANGED: a payloadSchema/properties/pair/prefixItems/1: was string and may now be boolean
new.yaml:16:52: error PAYLOAD_TYPE_CHANGED: a payloadSchema/properties/list/items/properties/v: was string and may now be boolean
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is left out of arguments and payloads, and what an argument selects, may not change in silence: not
// by coming either, and not deep inside.
func TestDefaultsAndMatches(t *testing.T) {
	file := func(argument, field string) string {
		return "version: 1\nevents:\n  - name: a\n    description: A.\n    inputSchema: {type: object, properties: {q: " + argument +
			"}}\n    payloadSchema: {type: object, properties: {x: " + field + ", y: {type: string}}}\n"
	}
	burst := func(key string, quiet int) string {
		return fmt.Sprintf("    x-coalesce: {key: %s, quietSeconds: %d, maxSeconds: 99}\n", key, quiet)
	}
	matched := func(path, op string) string {
		return "version: 1\nevents:\n  - name: a\n    description: A.\n    inputSchema: {type: object, properties: {q: {type: integer, x-match: {path: " + path + ", op: " + op +
			"}}}}\n    payloadSchema: {type: object, properties: {n: {type: integer}, l: {type: array, items: {type: object, properties: {n: {type: integer}}}}}}\n"
	}
	changed := func(was, is, to string) string {
		return fmt.Sprintf("new.yaml:5:74: error MATCH_CHANGED: a: argument \"q\" was tied to %s, and is to %s: who gives it receives %s occurrences\n", was, is, to)
	}
	acted := func(properties, actor string) string {
		if actor != "" {
			actor = "    x-actor: " + actor + "\n"
		}
		return "version: 1\nevents:\n  - name: a\n    description: A.\n" + actor + "    inputSchema: {type: object, properties: {" + properties +
			"}, additionalProperties: false}\n    payloadSchema: {type: object, properties: {a: {type: string}, b: {type: string}}}\n"
	}
	const free, plain = "{type: string}", "{type: string, maxLength: 9}"
	for _, c := range []struct{ what, old, new, want string }{
		{"x-match comes", file(free, plain), file("{type: string, x-match: /x}", plain),
			"new.yaml:5:73: error MATCH_CHANGED: a: argument \"q\" is tied to /x of the payload now: who gives it receives fewer occurrences\n"},
		{"min is an older name of gte", matched("/n", "min"), matched("/n", "gte"), ""},
		{"a bound leaves itself out", matched("/n", "gte"), matched("/n", "gt"), changed("/n by gte", "/n by gt", "fewer")},
		{"a bound takes itself in", matched("/n", "lt"), matched("/n", "max"), changed("/n by lt", "/n by max", "more")},
		{"equality becomes a bound", matched("/n", "equal"), matched("/n", "lte"), changed("/n by equal", "/n by lte", "more")},
		{"a bound is turned", matched("/n", "lte"), matched("/n", "gte"), changed("/n by lte", "/n by gte", "other")},
		{"one element becomes any", matched("/l/0/n", "equal"), matched("/l/*/n", "equal"), changed("/l/0/n by equal", "/l/*/n by equal", "more")},
		{"any element becomes one", matched("/l/*/n", "equal"), matched("/l/0/n", "equal"), changed("/l/*/n by equal", "/l/0/n by equal", "fewer")},
		{"any element becomes one, with a wider operator", matched("/l/*/n", "equal"), matched("/l/0/n", "lte"), changed("/l/*/n by equal", "/l/0/n by lte", "other")},
		{"a rule is turned around", matched("/n", "equal"), matched("/n", "equal, not: true"), changed("/n by equal", "/n by not equal", "other")},
		{"a rule that is turned around widens", matched("/n", "gt, not: true"), matched("/n", "gte, not: true"), changed("/n by not gt", "/n by not gte", "fewer")},
		{"an actor comes", acted("q: {type: string}", ""), acted("q: {type: string}", "/a"), ""},
		{"an actor is elsewhere", acted("q: {type: string}", "/a"), acted("q: {type: string}", "/b"),
			"new.yaml:5:14: error MATCH_CHANGED: a: argument \"notBy\" was tied to /a by not in, and is to /b by not in: who gives it receives other occurrences\n"},
		{"an actor goes", acted("q: {type: string}", "/a"), acted("q: {type: string}", ""),
			"new.yaml:5:5: error FIELD_REMOVED: a inputSchema/properties/notBy: field removed or renamed\n  old.yaml:5:14: it was here\n"},
		{"a burst has another key", file(free, plain) + burst("/x", 1), file(free, plain) + burst("[/x, /y]", 1),
			"new.yaml:7:5: warning COALESCE_CHANGED: a: events were joined by /x, and are by /x and /y\n"},
		{"a burst has no key any more", file(free, plain) + burst("/x", 1), file(free, plain),
			"new.yaml:3:11: warning COALESCE_CHANGED: a: events were joined by /x, and a consumer that takes the type's values is refused\n"},
		{"bursts come", file(free, plain), file(free, plain) + burst("/x", 1), ""},
		{"a burst has other times", file(free, plain) + burst("/x", 1), file(free, plain) + burst("/x", 9), ""},
		{"a field of elements becomes private", file(free, "{type: array, items: {type: object, properties: {n: {type: integer, maximum: 9}}}}"),
			file(free, "{type: array, items: {type: object, properties: {n: {type: integer, maximum: 9, x-private: true}}}}"),
			"new.yaml:6:131: warning PRIVATE_CHANGED: a: payload field \"x/*/n\" is private now: callers no longer receive it unless PerPrincipal returns it\n"},
		{"a field is no longer private", file(free, "{type: string, maxLength: 9, x-private: true}"), file(free, plain),
			"new.yaml:6:48: warning PRIVATE_CHANGED: a: payload field \"x\" was private, and all callers see it now\n"},
		{"a field stays private", file(free, "{type: string, maxLength: 9, x-private: true}"), file(free, "{type: string, maxLength: 9, allOf: [{x-private: true}]}"), ""},
		{"default comes", file(free, plain), file("{type: string, default: z}", plain),
			"new.yaml:5:73: error DEFAULT_CHANGED: a: argument \"q\" has the default \"z\" now; left out it had none\n"},
		{"default deep inside", file("{type: object, properties: {n: {type: integer, default: 1}}}", plain), file("{type: object, properties: {n: {type: integer, default: 2}}}", plain),
			"new.yaml:5:105: error DEFAULT_CHANGED: a: the default of argument \"q/n\" went from 1 to 2\n"},
		{"default of elements", file("{type: array, items: {type: object, properties: {n: {type: integer, default: 1}}}}", plain), file("{type: array, items: {type: object, properties: {n: {type: integer}}}}", plain),
			"new.yaml:5:98: error DEFAULT_CHANGED: a: argument \"q/*/n\" no longer has the default 1\n"},
		{"default written otherwise", file("{type: number, default: 1.0}", plain), file("{type: number, default: 1}", plain), ""},
		{"default of a payload comes", file(free, free), file(free, "{type: string, default: z}"),
			"new.yaml:6:75: error PAYLOAD_DEFAULT_CHANGED: a: payload field \"x\" has the default \"z\" now; left out it had none\n"},
		{"unknown format", file(free, plain), file("{type: string, format: datetime}", plain), ""},
		{"a type for arguments within bounds", file("{type: integer, minimum: 0, maximum: 9}", plain), file("{type: integer, minimum: 0, maximum: 9, x-go-type: uint8}", plain), ""},
		{"a type for arguments beyond it", file("{type: integer, minimum: 0, maximum: 999}", plain), file("{type: integer, minimum: 0, maximum: 999, x-go-type: uint8}", plain),
			"new.yaml:5:46: error INPUT_GO_TYPE_CHANGED: a: argument \"q\" is read as uint8 now, which may refuse what the schema allows\n"},
		{"a bound within the chosen type", file(free, "{type: integer, minimum: 0, maximum: 9, x-go-type: uint8}"), file(free, "{type: integer, minimum: 0, maximum: 99, x-go-type: uint8}"), ""},
		{"a bound beyond the chosen type", file(free, "{type: integer, minimum: 0, maximum: 9, x-go-type: uint8}"), file(free, "{type: integer, minimum: 0, maximum: 999, x-go-type: uint16}"),
			"new.yaml:6:48: error PAYLOAD_GO_TYPE_OUTGROWN: a payloadSchema/properties/x: maximum went from 9 to 999; clients read it as uint8, which may refuse that\n"},
		{"a pattern of a raw field", file(free, "{type: string, pattern: a, x-go-type: encoding/json.RawMessage}"), file(free, "{type: string, pattern: b}"), ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			if diff := cmp.Diff(c.want, text(compare(t, c.old, c.new))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// An open enum that lists one value fewer allows what it allowed (EVOL-2): what was 6 is still 6, and code
// that uses the constant no longer compiles.
func TestOpenEnumThatListsFewer(t *testing.T) {
	event := func(values string) string {
		return "version: 1\nevents:\n  - name: e.x\n    description: d\n    inputSchema: {type: object}\n    payloadSchema:\n" +
			"      type: object\n      properties: {n: {anyOf: [" + values + ", {type: integer, minimum: 0, maximum: 9}]}}\n      required: [n]\n"
	}
	got := text(compare(t, event("{enum: [5, 6]}"), event("{const: 5}"), breaking.Wire, breaking.Strict, breaking.Source))
	if want := "new.yaml:8:20: error GO_NAME_REMOVED: EXPayloadN6: the constant is gone\n"; !strings.HasPrefix(got, want) || strings.Count(got, "error") != 1 {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A member that takes the Go name of another changes generated Go, though both fields have the same type.
func TestMemberTakesName(t *testing.T) {
	const file = "version: 1\nschemas:\n  S: {type: object, properties: {%s}}\nevents: []\n"
	got := text(compare(t, fmt.Sprintf(file, "_url: {type: string}"), fmt.Sprintf(file, "_url: {type: string}, url: {type: string}"), "SOURCE"))
	if want := "new.yaml:3:56: error GO_TYPE_CHANGED: S.URL: the field was the member \"_url\" and is \"url\"\n"; got != want {
		t.Errorf("got\n%swant %s", got, want)
	}
}

// A variant that takes the name of a type that comes with its union changes generated Go.
func TestVariantTakesName(t *testing.T) {
	const file = "version: 1\nschemas:\n  U: {oneOf: [%s]}\nevents: []\n"
	variant := func(tag string) string {
		return fmt.Sprintf("{type: object, properties: {kind: {const: %s}}, required: [kind]}", tag)
	}
	old := fmt.Sprintf(file, variant("a")+", "+variant("b"))
	got := text(compare(t, old, fmt.Sprintf(file, variant("a")+", "+variant("b")+", "+variant("unknown")), "SOURCE"))
	if want := "error GO_TYPE_CHANGED: UUnknown: the type was the unknown variant of U and is struct\n"; !strings.Contains(got, want) || strings.Count(got, "error") != 1 {
		t.Errorf("got\n%swant %s", got, want)
	}
	got = text(compare(t, old, strings.ReplaceAll(old, "  U:", "  V:"), "SOURCE"))
	if want := "error GO_NAME_REMOVED: U: the type is gone\n"; !strings.Contains(got, want) || strings.Contains(got, "UVariant") || strings.Contains(got, "UUnknown") {
		t.Errorf("got\n%swant %s", got, want)
	}
}

// A variant of a union is compared by all of its tags, whose order does not matter.
func TestVariantTags(t *testing.T) {
	union := func(mapping string) string {
		return `version: 1
schemas:
  M: {type: object, required: [k], properties: {k: {type: string}}}
  N: {type: object, required: [k], properties: {k: {type: string}}}
  U: {oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}], discriminator: {propertyName: k, mapping: {` + mapping + `, n: '#/schemas/N'}}}
events:
  - {name: e, description: E., inputSchema: {type: object}, payloadSchema: {type: object, properties: {u: {$ref: '#/schemas/U'}}}}
`
	}
	const x, y, z = "x: '#/schemas/M'", "y: '#/schemas/M'", "z: '#/schemas/M'"
	old := union(x + ", " + y)
	if found := text(compare(t, old, union(y+", "+x), breaking.Source)); found != "" {
		t.Error(found)
	}
	want := "new.yaml:5:3: error GO_TYPE_CHANGED: U.M: the variant was tag \"x\" \"y\" and is tag \"y\" \"z\"\n"
	if diff := cmp.Diff(want, text(compare(t, old, union(z+", "+y), breaking.Source))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A changed default is reported for each event type whose payload has the member, though all share one schema.
func TestSharedMember(t *testing.T) {
	file := func(def string) string {
		return "version: 1\nschemas:\n  Base: {type: object, properties: {x: {type: string" + def + "}}}\nevents:\n" +
			"  - {name: a, description: A., inputSchema: {type: object}, payloadSchema: {$ref: '#/schemas/Base'}}\n" +
			"  - {name: b, description: B., inputSchema: {type: object}, payloadSchema: {type: object, allOf: [{$ref: '#/schemas/Base'}]}}\n"
	}
	want := "new.yaml:3:64: error PAYLOAD_DEFAULT_CHANGED: a and b: payload field \"x\" has the default \"y\" now; left out it had none\n"
	if diff := cmp.Diff(want, text(compare(t, file(""), file(", default: y")))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The work for a union grows with its variants and members, but not with their product.
func TestUnionOfManyVariants(t *testing.T) {
	allocations := func(variants int) float64 {
		var b strings.Builder
		b.WriteString("version: 1\nevents:\n  - name: e\n    description: E.\n    inputSchema: {type: object}\n    payloadSchema:\n      oneOf:\n")
		for v := range variants {
			fmt.Fprintf(&b, "        - {type: object, required: [k], properties: {k: {const: v%d}", v)
			for m := range 8 {
				fmt.Fprintf(&b, ", m%d_%d: {type: string, default: x}", v, m)
			}
			b.WriteString("}}\n")
		}
		old, new := version(t, "old.yaml", []byte(b.String())), version(t, "new.yaml", []byte(b.String()))
		return testing.AllocsPerRun(1, func() {
			if found := breaking.Compare(old, new, breaking.Options{}); len(found) > 0 {
				t.Fatal(text(found))
			}
		})
	}
	if few, many := allocations(20), allocations(80); many > 6*few {
		t.Errorf("four times the variants take %.0f allocations instead of %.0f", many, few)
	}
}
