package validate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// asserted has a schema for each keyword that event files mostly use, with values that it takes and refuses.
var asserted = []struct{ schema, valid, invalid string }{
	{`{"type":"integer"}`, `[1, -1, 9007199254740993]`, `[1.5, "1", null, true, [], {}]`},
	{`{"type":"number"}`, `[1, 1.5]`, `["1", null]`},
	{`{"type":"string"}`, `["", "a"]`, `[1, null, {}]`},
	{`{"type":"boolean"}`, `[true, false]`, `[0, "true", null]`},
	{`{"type":["string","null"]}`, `["a", null]`, `[1, false]`},
	{`{"type":"string","minLength":2}`, `["ab", "éé", "\u00e9\u00e9"]`, `["", "a", "é", "\u00e9"]`},
	{`{"type":"string","maxLength":2}`, `["", "ab", "éé"]`, `["abc", "éééé"]`},
	{`{"type":"string","maxLength":0}`, `[""]`, `["a"]`},
	{`{"type":"integer","minimum":2}`, `[2, 3]`, `[1, -9]`},
	{`{"type":"integer","maximum":2}`, `[2, -9]`, `[3]`},
	{`{"type":"number","minimum":2}`, `[2, 2.5]`, `[1, 1.5]`},
	{`{"type":"number","maximum":2}`, `[2, 1.5]`, `[3, 2.5]`},
	{`{"type":"number","minimum":0,"maximum":0}`, `[0]`, `[1, -1, 0.5]`},
	{`{"type":"string","enum":["a","b c"]}`, `["a", "b c", "\u0061"]`, `["", "c", 1]`},
	{`{"enum":["a"]}`, `["a"]`, `["b", 1, null, [], {}, true]`},
	{`{"const":"a"}`, `["a"]`, `["b", "", null]`},
	{`{"type":"string","pattern":"^a+$"}`, `["a", "\u0061a"]`, `["", "b", "ab"]`},
	{`{"type":"string","format":"date-time"}`, `["2026-11-20T08:00:00Z"]`, `["", "2026-11-20", "yesterday"]`},
	{`{"type":"string","format":"email"}`, `["a@b.example"]`, `["", "a"]`},
	{`{"type":"string","contentEncoding":"base64"}`, `["", "YQ==", "aGVsbG8=", "\u0059Q=="]`, `["YQ", "YR==", "!", "YQ==\n", "a_-b"]`},
	{`{"contentEncoding":"base64"}`, `["YQ==", 1, null]`, `["YQ"]`},
	{`{"type":["string","null"],"contentEncoding":"base64","contentMediaType":"image/png"}`, `["YQ==", null]`, `["YQ"]`},
	{`{"type":"string","contentEncoding":"base64","maxLength":4}`, `["YQ=="]`, `["!!!!", "aGVsbG8="]`},
	{`{"type":"string","contentEncoding":"hex"}`, `["61", "what nobody decodes"]`, `[1]`},
	{`{"type":"array","items":{"type":"string"}}`, `[[], ["a"]]`, `[["a", 1], {}]`},
	{`{"type":"array","minItems":1}`, `[[1], [1, 2]]`, `[[]]`},
	{`{"type":"array","maxItems":1}`, `[[], [1]]`, `[[1, 2]]`},
	{`{"type":"array","maxItems":0}`, `[[]]`, `[[1]]`},
	{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `[{"a": ""}, {"\u0061": "x", "b": 1}]`, `[{}, {"a": 1}, {"b": ""}]`},
	{`{"type":"object","properties":{"a":{}},"additionalProperties":false}`, `[{}, {"a": 1}]`, `[{"b": 1}, {"a": 1, "A": 1}]`},
	{`{"type":"object","additionalProperties":{"type":"integer"}}`, `[{}, {"a": 1}]`, `[{"a": "1"}, {"a": 1, "b": null}]`},
	{`{"anyOf":[{"type":"string","maxLength":1},{"type":"null"}]}`, `["a", null]`, `["ab", 1]`},
	{`{"anyOf":[{"type":"string"},{"type":"null"}],"maxLength":1}`, `["a", null]`, `["ab", 1]`},
	{`{"oneOf":[{"type":"string"},{"maxLength":3}]}`, `["abcd", 1]`, `["abc"]`},
	{`{"oneOf":[{"type":"integer","minimum":1},{"type":"array","items":{"const":"x"}}]}`, `[1, ["x"]]`, `[0, ["y"], "x"]`},
}

// places are the ways that lead from a payload to a schema: %[1]s is the schema or the value.
var places = []struct{ name, schema, value string }{
	{"the value itself", `%[1]s`, `%[1]s`},
	{"a member", `{"properties":{"m":%[1]s},"required":["m"]}`, `{"m":%[1]s}`},
	{"another member", `{"additionalProperties":%[1]s}`, `{"m":%[1]s}`},
	{"an item", `{"items":%[1]s}`, `[%[1]s]`},
	{"a definition", `{"properties":{"m":{"$ref":"#/$defs/d"}},"$defs":{"d":%[1]s}}`, `{"m":%[1]s}`},
	{"an item of a variant", `{"anyOf":[{"type":"array","items":%[1]s},{"type":"integer"}]}`, `[%[1]s]`},
}

// A keyword holds wherever its schema is reached: a payload that breaks one is refused (section 2).
func TestKeywordsHoldAtEachPlace(t *testing.T) {
	list := func(text string) (out []json.RawMessage) {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(text, err)
		}
		return out
	}
	for _, place := range places {
		for _, a := range asserted {
			s := compile(t, fmt.Sprintf(place.schema, a.schema))
			for _, v := range list(a.valid) {
				if text := fmt.Sprintf(place.value, v); s.Validate(json.RawMessage(text)) != nil {
					t.Errorf("%s as %s refuses %s: %s", a.schema, place.name, text, check(t, s, text))
				}
			}
			for _, v := range list(a.invalid) {
				if text := fmt.Sprintf(place.value, v); s.Validate(json.RawMessage(text)) == nil {
					t.Errorf("%s as %s accepts %s", a.schema, place.name, text)
				}
			}
		}
	}
}

// Each required member counts, however many members an object has (section 2).
func TestEachRequiredMemberOfAWideObject(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 66, 127, 128, 129, 200} {
		for _, requires := range []int{n, min(n, 2)} {
			t.Run(fmt.Sprint(n, requires), func(t *testing.T) {
				properties, members, required := make([]string, n), make([]string, n), make([]string, n)
				for i := range n {
					required[i] = fmt.Sprintf(`"m%d"`, i)
					properties[i], members[i] = required[i]+`:{"type":"integer"}`, required[i]+`:1`
				}
				s := compile(t, `{"type":"object","properties":{`+strings.Join(properties, ",")+`},"required":[`+strings.Join(required[n-requires:], ",")+`]}`)
				if got := check(t, s, `{`+strings.Join(members, ",")+`}`); got != "" {
					t.Fatalf("with all members: %s", got)
				}
				for i := range n {
					rest := append(append([]string{}, members[:i]...), members[i+1:]...)
					want := ""
					if i >= n-requires {
						want = fmt.Sprintf("/m%d is required", i)
					}
					if got := check(t, s, `{`+strings.Join(rest, ",")+`}`); got != want {
						t.Fatalf("without m%d: %q, want %q", i, got, want)
					}
				}
			})
		}
	}
}
