package form_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/form"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A fault has the place of its value, the words of the schema, and a remedy.
func TestCheck(t *testing.T) {
	f := form.New([]byte(`{
		"title": "the file", "type": "object", "required": ["version"], "additionalProperties": false,
		"properties": {
			"version": {"const": 1, "x-code": "MCPE127", "errorMessage": "is not known (write version: 1)"},
			"deep": {"type": "object"},
			"flag": {"type": "boolean"},
			"count": {"type": "integer", "minimum": 1, "maximum": 9},
			"either": {"type": "object", "maxProperties": 1, "errorMessage": "has several members (write {a: …} or {b: …})", "properties": {"a": {}, "b": {}}},
			"list": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"title": "a word", "type": "string", "enum": ["one", "two"]}},
			"part": {"type": "object", "required": ["out"], "properties": {"out": {"type": "string"}}},
			"pairs": {"type": "array", "items": {"type": "object", "properties": {"names": {"propertyNames": {"pattern": "^a", "errorMessage": "does not begin with a"}}, "more": {}}}}
		}
	}`), map[string]int{"deep": 0})
	for in, want := range map[string]string{
		"version: 1\ndeep: {a: {b: 1}}\n":                       "",
		"version: 2\n":                                          "f.yaml:1:10: error MCPE127: version 2 is not known (write version: 1)",
		"{}\n":                                                  `f.yaml:1:1: error MCPE122: the file needs "version" (write version: 1)`,
		"version: 1\nlits: [one]\n":                             `f.yaml:2:1: error MCPE120: the file has no key "lits" (did you mean "list"?)`,
		"version: 1\nflag: yes\n":                               "f.yaml:2:7: error MCPE121: flag must be a boolean, not a string (write true)",
		"version: 1\ncount: 10\n":                               "f.yaml:2:8: error MCPE123: count is 10; it must be 1 to 9",
		"version: 1\neither: {a: 1, b: 1}\n":                    "f.yaml:2:9: error MCPE123: either has several members (write {a: …} or {b: …})",
		"version: 1\neither: a\n":                               "f.yaml:2:9: error MCPE121: either must be an object, not a string (write {a: …} or {b: …})",
		"version: 1\nlist: one\n":                               `f.yaml:2:7: error MCPE121: list must be an array, not a string (write ["one"])`,
		"version: 1\nlist: []\n":                                "f.yaml:2:7: error MCPE123: list is empty",
		"version: 1\nlist: [tow]\n":                             `f.yaml:2:8: error MCPE123: a word cannot be "tow" (did you mean "two"?)`,
		"version: 1\nlist: [one, one]\n":                        "f.yaml:2:13: error MCPE123: list holds \"one\" twice\n  f.yaml:2:8: first here",
		"version: 1\npart: a\n":                                 "f.yaml:2:7: error MCPE121: part must be an object, not a string (write {out: a})",
		"version: 1\npairs: [{names: {a: 1, b: 2}, more: 1}]\n": `f.yaml:2:24: error MCPE123: the key "b" does not begin with a`,
		"version: 1\npairs: [{more: 1, names: {b: 2}}, {}]\n":   `f.yaml:2:27: error MCPE123: the key "b" does not begin with a`,
	} {
		n, found := source.Parse("f.yaml", []byte(in))
		var got strings.Builder
		if err := source.Write(&got, append(found, f.Check(n)...), source.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(got.String()) != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got.String(), want)
		}
	}
}
