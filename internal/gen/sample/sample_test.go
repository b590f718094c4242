package sample_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// Every schema of the examples and of the golden cases has a valid example, the same on each run.
func TestValuesAreValidAndTheSame(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../../examples/schemas/*.yaml", "../../../golden/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	n := 0
	for _, file := range files {
		set, found := schema.Load([]string{file}, schema.Options{})
		if source.HasErrors(found) {
			continue // a case about diagnostics
		}
		for _, f := range set.Files {
			for _, e := range f.Events {
				for _, node := range []*source.Node{e.Input, e.Payload} {
					n++
					raw := set.Published(node)
					v, ok := sample.Value(raw)
					if !ok {
						t.Errorf("%s: %s has no example: %s", file, e.Name, raw)
						continue
					}
					check(t, raw, v)
					if again, _ := sample.Value(raw); string(again) != string(v) {
						t.Errorf("%s is %s and then %s", e.Name, v, again)
					}
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d schemas were tried", n)
	}
}

// Values begin with that of Value and bring every value of an enum and of a boolean; all are valid.
func TestValuesGoThroughEnums(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"priority":{"enum":["low","normal","high"]},"open":{"type":"boolean"}},"required":["title","priority"]}`)
	values := new(sample.Maker).Values(&published.Schema{Head: schema}, 12)
	if first, ok := sample.Value(schema); !ok || len(values) != 6 || string(values[0]) != string(first) {
		t.Errorf("values %s, the first one must be %s", values, first)
	}
	all := fmt.Sprintf("%s", values)
	for _, want := range []string{`"low"`, `"normal"`, `"high"`, `"open":true`, `"open":false`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
	for _, v := range values {
		check(t, schema, v)
	}
	if values := new(sample.Maker).Values(&published.Schema{Head: json.RawMessage(`false`)}, 12); values != nil {
		t.Errorf("%s is valid under false", values)
	}
}

func check(t *testing.T, schema, v json.RawMessage) {
	t.Helper()
	s, err := validate.Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s is not valid under %s: %v", v, schema, err)
	}
}

// The value of a schema, keyword by keyword.
func TestValue(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"incidentId":{"type":"string"},"id":{"type":"string"},"name":{"type":"string"},"url":{"type":"string"}}}`,
			`{"incidentId":"incident-1","id":"id-1","name":"name","url":"https://example.com/"}`},
		{`{"enum":["a","b"]}`, `"a"`},
		{`{"const":{"a":1.0}}`, `{"a":1.0}`},
		{`{"type":"integer","examples":[42]}`, `42`},
		{`{"type":"object","properties":{"a":{"type":"integer","default":7}}}`, `{"a":7}`},
		{`{"type":"string","examples":[1],"minLength":3}`, `"text"`},
		{`{"type":["null","string"]}`, `"text"`},
		{`{"type":"null"}`, `null`},
		{`{"type":"boolean"}`, `true`},
		{`true`, `"text"`},
		{`{"type":"string","format":"date-time"}`, `"2026-11-20T08:00:00Z"`},
		{`{"type":"string","format":"uuid"}`, `"3f2504e0-4f89-41d3-9a0c-0305e82c3300"`},
		{`{"type":"string","pattern":"^INC-[0-9]{3}$"}`, `"INC-111"`},
		{`{"type":"string","pattern":"^(a|b)+$","minLength":4}`, `"aaaa"`},
		{`{"type":"string","minLength":12}`, `"text text text"`},
		{`{"type":"string","maxLength":2}`, `"te"`},
		{`{"type":"integer","minimum":10}`, `10`},
		{`{"type":"integer","exclusiveMinimum":10,"multipleOf":4}`, `12`},
		{`{"type":"integer","maximum":-3}`, `-3`},
		{`{"type":"number","minimum":0,"exclusiveMaximum":1}`, `0.75`},
		{`{"type":"number","multipleOf":0.5}`, `0.5`},
		{`{"type":"array","items":{"type":"integer"}}`, `[1]`},
		{`{"type":"array","items":{"type":"string"},"minItems":2,"uniqueItems":true}`, `["text","text-2"]`},
		{`{"type":"array","items":{"enum":["a","b"]},"minItems":2,"uniqueItems":true}`, `["a","b"]`},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, `["text",2]`},
		{`{"type":"array","contains":{"const":"x"}}`, `["x"]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"string"}],"additionalItems":false}`, `["text"]`},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, `{"key1":1}`},
		{`{"type":"object","patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false}`, `{"x-":1}`},
		{`{"type":"object","minProperties":2}`, `{"key1":"key1","key2":"key2-2"}`},
		{`{"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"minProperties":1}`, `{"a":"a"}`},
		{`{"type":"object","properties":{"a":{},"b":{}},"maxProperties":1,"required":["b"]}`, `{"b":"b"}`},
		{`{"type":"object","required":["a"],"dependentRequired":{"a":["b"]}}`, `{"a":"a","b":"b"}`},
		{`{"type":"object","properties":{"a":false,"b":{"type":"null"}}}`, `{"b":null}`},
		{`{"oneOf":[{"type":"null"},{"type":"integer"}]}`, `1`},
		{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}}},{"properties":{"a":{"minimum":5}},"required":["a"]}]}`, `{"a":5}`},
		{`{"anyOf":[{"type":"integer"}],"not":{"const":1}}`, ``},
		{`{"type":"object","properties":{"kind":{"enum":["a","b"]}},"required":["kind"],"if":{"properties":{"kind":{"const":"a"}}},"then":{"required":["x"],"properties":{"x":{"type":"integer"}}}}`, `{"kind":"a","x":1}`},
		{`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"next":{"$ref":"#/$defs/T"},"v":{"type":"integer"}},"required":["v"]}}}`,
			`{"v":1}`},
		{`{"$ref":"#t","$defs":{"T":{"$anchor":"t","type":"integer"}}}`, `1`},
		{`{"type":"string","pattern":"^(?=a)a$"}`, `"a"`},
		{`{"type":"string","pattern":"^(?!a)a$"}`, ``},
		{`{"type":"string","pattern":"^\\p{Script=Greek}$"}`, `"Ͱ"`},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, ``},
		{`{"type":"array","minItems":100000}`, ``},
		{`false`, ``},
		{`{"type":"nothing"}`, ``},
		{`{`, ``},
	} {
		v, ok := sample.Value(json.RawMessage(test.schema))
		if string(v) != test.want || ok != (test.want != "") {
			t.Errorf("%s: got %s, want %s", test.schema, v, test.want)
		}
		if ok {
			check(t, json.RawMessage(test.schema), v)
		}
	}
}

// Over JSON Schema's own test suite an example is valid or there is none;
// nothing panics or runs away.
func TestSuiteSchemas(t *testing.T) {
	files, err := filepath.Glob("../../../gen/testdata/json-schema-suite/tests/draft2020-12/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tried, made := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct{ Schema json.RawMessage }
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			if _, err := validate.Compile(g.Schema); err != nil {
				continue
			}
			tried++
			if v, ok := sample.Value(g.Schema); ok {
				made++
				check(t, g.Schema, v)
			}
		}
	}
	t.Logf("%d of %d schemas have an example", made, tried)
	if made*10 < tried*8 {
		t.Errorf("only %d of %d schemas have an example", made, tried)
	}
}
