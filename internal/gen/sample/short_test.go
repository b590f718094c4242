package sample_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// wide is an object of n optional members after the required id, each with the schema.
func wide(n int, member string) string {
	members := []string{`"id":{"type":"string"}`}
	for i := range n {
		members = append(members, fmt.Sprintf(`"member%d":%s`, i, member))
	}
	return `{"type":"object","properties":{` + strings.Join(members, ",") + `},"required":["id"]}`
}

// An example has the required members, as many optional ones as fit in two kilobytes, and is valid. It is the value of
// Value if that fits. There is none if the required members do not fit.
func TestExamplesAreShort(t *testing.T) {
	text := `{"type":"string"}`
	for _, test := range []struct {
		name, schema, has string
	}{
		{"short", wide(3, text), `{"id":"id-1","member0":"member0","member1":"member1","member2":"member2"}`},
		{"many members", wide(500, text), `"member5":"member5"`},
		{"many levels", wide(4, wide(5, wide(6, wide(7, text)))), `"member3":`},
		{"wide at each level", wide(60, wide(60, text)), `"member5":{`},
		{"long texts", wide(20, `{"type":"string","minLength":400}`), `"member1":"`},
		{"a very long text", wide(2, `{"type":"string","minLength":4000}`), `{"id":"id-1"}`},
		{"a long example of the author", wide(1, `{"type":"array","items":{"type":"string"},"examples":[["`+strings.Repeat("a", 3000)+`"]]}`), `"member0":["`},
		{"a long default of the author", wide(1, `{"type":"object","default":{"a":"`+strings.Repeat("a", 3000)+`"}}`), `"member0":{`},
		{"long required members", `{"type":"object","properties":{"a":{"type":"string","minLength":4000}},"required":["a"]}`, ``},
		{"a long constant", `{"const":"` + strings.Repeat("a", 3000) + `"}`, ``},
		{"many required items", `{"type":"array","items":{"type":"string","minLength":20},"minItems":150}`, ``},
		{"no value", `false`, ``},
	} {
		schema := &published.Schema{Head: json.RawMessage(test.schema)}
		v, ok := new(sample.Maker).Example(schema)
		if ok != (test.has != "") || !strings.Contains(string(v), test.has) {
			t.Errorf("%s: %s is not an example with %s", test.name, v, test.has)
		}
		if !ok {
			continue
		}
		check(t, schema.Head, v)
		var shown bytes.Buffer
		if err := json.Indent(&shown, v, "", "  "); err != nil || shown.Len() > 2048 {
			t.Errorf("%s: %d bytes, %v", test.name, shown.Len(), err)
		}
	}
}
