package breaking_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/rule"
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
func TestPlaces(t *testing.T) {
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
