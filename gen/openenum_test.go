package gen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// openEnums are schemas that list values and allow others: every pair of a list and what it is open to, in
// every way to write them.
func openEnums() []string {
	var all []string
	add := func(lists, others []string) {
		for _, list := range lists {
			for _, other := range others {
				for _, form := range []string{
					`{"anyOf":[%s,%s]}`, `{"oneOf":[%s,%s]}`, `{"anyOf":[%[2]s,%[1]s]}`, `{"anyOf":[%s,%s,{"type":"null"}]}`,
					`{"allOf":[{"anyOf":[%s,%s]}]}`, `{"anyOf":[{"anyOf":[%s]},%s]}`,
				} {
					all = append(all, fmt.Sprintf(form, list, other))
				}
			}
		}
	}
	add([]string{`{"const":"a"}`, `{"enum":["a"]}`, `{"enum":["a","b"]}`, `{"enum":["a"],"x-enum-varnames":["First"]}`, `{"type":"string","const":""}`},
		[]string{`{"type":"string"}`, `{"type":"string","maxLength":3}`, `{"type":"string","pattern":"^x*$"}`, `{"type":"string","minLength":1}`})
	add([]string{`{"const":5}`, `{"enum":[5]}`, `{"enum":[5,6]}`, `{"const":5,"type":"integer"}`, `{"const":2.5}`, `{"const":0}`},
		[]string{`{"type":"integer"}`, `{"type":"number"}`, `{"type":"number","maximum":4}`, `{"type":"integer","minimum":0}`})
	return append(all, `{"type":"string","anyOf":[{"const":"a"},{"maxLength":3}]}`, `{"type":"string","anyOf":[{"enum":["a"]},{"pattern":"^x*$"}]}`,
		`{"type":"integer","anyOf":[{"const":5},{"maximum":4}]}`, `{"type":"number","oneOf":[{"const":5},{"maximum":4}]}`)
}

// TestOpenEnumRoundTrip is about enums that are open to other values: whatever is valid survives a round trip
// through the generated type, also Go's zero values, and also if the schema lists one value alone.
func TestOpenEnumRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	trips := &roundTrips{dir: t.TempDir()}
	var events []string
	for i, s := range openEnums() {
		object := fmt.Sprintf(`{"type":"object","properties":{"r":%s,"o":%[1]s,"l":{"type":"array","items":%[1]s},"m":{"type":"object","additionalProperties":%[1]s}},"required":["r"]}`, s)
		events = append(events, fmt.Sprintf(`{"name":"e%d.x","description":"d","inputSchema":%s,"payloadSchema":%[2]s}`, i, object))
		compiled, err := validate.Compile(json.RawMessage(object))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		valid := 0
		for _, value := range []string{`""`, `"a"`, `"b"`, `"x"`, `"xx"`, `0`, `5`, `6`, `2.5`, `-1`, `null`} {
			for _, doc := range []string{`{"r":%s}`, `{"r":%s,"o":%[1]s,"l":[%[1]s,%[1]s],"m":{"k":%[1]s}}`} {
				data := json.RawMessage(fmt.Sprintf(doc, value))
				if compiled.Validate(data) != nil {
					continue
				}
				valid++
				for _, typ := range []string{"Payload", "Arguments"} {
					trips.documents = append(trips.documents, document{s, fmt.Sprintf("p.E%dX%s", i, typ), data, func(string) bool { return true }})
				}
			}
		}
		if valid < 2 {
			t.Errorf("%s allows %d of the documents: the test says nothing about it", s, valid)
		}
	}
	write(t, trips.dir, "e.json", `{"version":1,"package":"p","events":[`+strings.Join(events, ",")+`]}`)
	trips.requests = []gen.Request{{Dir: trips.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}}}
	trips.run(t)
}
