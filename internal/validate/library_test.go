package validate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// described are the schemas of an event type whose package has the file.
func described(t *testing.T, text, name string) (input, payload *published.Schema) {
	t.Helper()
	i := eventsimpl.NewSchemas(text).Describe(name)
	d := published.Of(&i)
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	return d.Input, d.Payload
}

// Q2: what a library compiles judges, and explains, as the whole schema does: in both dialects, with references
// into definitions, names that need escapes, definitions of one name, such as are the schema's own, lead back to
// it or have names of their own, and text in data that looks like a reference.
func TestLibraryJudgesAsCompile(t *testing.T) {
	const file = `{"$defs":{
		"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"},"leaf":{"$ref":"#/$defs/a~1b%%20c/properties/inner"},"$ref":{"type":"string"}},"required":["id"],"additionalProperties":false},
		"a/b c":{"properties":{"inner":{"type":"integer","maximum":3}},"x-other":{"$ref":"#/components/none"},"const":{"$ref":"#/$defs/Node"}},
		"Old":{"type":"object","dependencies":{"a":{"$ref":"#/definitions/Text"}},"items":[{"$ref":"#/definitions/Text"}]},
		"Text":{"type":"string"},
		"Text#2":{"type":"string","minLength":2},
		"Back":{"properties":{"top":{"$ref":"#"}}},
		"Anchored":{"$dynamicAnchor":"x","type":"object","properties":{"a":{"$dynamicRef":"#x"}}},
		"Open":{"properties":{"a":{"type":"string"}}}},
	"refs":{"Node":["Node","a/b c"],"Old":["Text"]},
	"events":{"e":{"fingerprint":"f","inputSchema":%s,"payloadSchema":true}}}`
	for schema, values := range map[string][]string{
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/Node"}},"$defs":["Node"]}`: {
			`{}`, `{"n":{"id":1}}`, `{"n":{"id":1,"next":{}}}`, `{"n":{"id":1,"leaf":4,"next":{"id":2,"leaf":"x","$ref":1}}}`, `{"n":{"id":1,"more":1}}`, `1`},
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"o":{"$ref":"#/definitions/Old","type":"null"}},"definitions":["Old"]}`: {
			`{"o":{}}`, `{"o":{"a":1}}`, `{"o":3}`},
		`{"type":"object","properties":{"t":{"$ref":"#/$defs/Text"},"own":{"$ref":"#/$defs/Own"}},"$defs":[{"Own":{"$ref":"#/$defs/Text"}},["Text","Text#2"]]}`: {
			`{"t":"ab"}`, `{"t":"a"}`, `{"own":"a"}`, `{"own":1}`},
		`{"type":"object","properties":{"b":{"$ref":"#/$defs/Back"}},"$defs":["Back"]}`:                                          {`{"b":{"top":{"b":{}}}}`, `{"b":{"top":1}}`},
		`{"type":"object","properties":{"b":{"$ref":"#/$defs/Anchored"}},"$defs":["Anchored"]}`:                                  {`{"b":{"a":{}}}`, `{"b":{"a":1}}`},
		`{"$ref":"#/$defs/Open","unevaluatedProperties":false,"type":"object","$defs":["Open"]}`:                                 {`{"a":"x"}`, `{"b":1}`},
		`{"$id":"https://example.com/x","type":"object","properties":{"o":{"$ref":"#/$defs/Open"}},"$defs":["Open"]}`:            {`{"o":{"a":1}}`},
		`{"anyOf":[{"$ref":"#/$defs/Text"},{"$ref":"#/$defs/Node"}],"$defs":["Text","Node"]}`:                                    {`"x"`, `1`, `{"id":1}`, `{"id":1,"next":2}`},
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"o":{"$ref":"#/$defs/Open"}},"$defs":["Open"]}`: {`{"o":{"a":1}}`},
	} {
		var library validate.Library
		input, _ := described(t, fmt.Sprintf(file, schema), "e")
		want, errWant := validate.Compile(input.JSON())
		for range 2 { // what is known by now is used again
			got, err := library.Compile(input)
			if fmt.Sprint(err) != fmt.Sprint(errWant) {
				t.Fatalf("%s: %v, want %v", schema, err, errWant)
			}
			for _, v := range values {
				if err != nil {
					continue
				}
				if got, want := fmt.Sprint(got.Validate(json.RawMessage(v))), fmt.Sprint(want.Validate(json.RawMessage(v))); got != want {
					t.Errorf("%s: %s gives %s, want %s", schema, v, got, want)
				}
			}
		}
	}
}

// Q2: a definition that cannot be compiled is an error of the schemas that lead to it, and of no others.
func TestLibraryRefuses(t *testing.T) {
	var library validate.Library
	bad, good := described(t, `{"$defs":{"Bad":{"pattern":"("},"Good":{"type":"string"}},"events":{"e":{"fingerprint":"f",
		"inputSchema":{"properties":{"a":{"$ref":"#/$defs/Bad"}},"$defs":["Bad","Good"]},"payloadSchema":{"$ref":"#/$defs/Good","$defs":["Good"]}}}}`, "e")
	_, want := validate.Compile(bad.JSON())
	if _, err := library.Compile(bad); err == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
	s, err := library.Compile(good)
	if err != nil || s.Validate(json.RawMessage(`"x"`)) != nil || s.Validate(json.RawMessage(`1`)) == nil {
		t.Errorf("the other: %v", err)
	}
}

// Q2: random graphs of definitions, which refer to each other and to what has no fast check, judge alike.
func TestLibraryGraphs(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(8)
		ref := func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/D%d"}`, i) }
		var defs, refs, tops []string
		for i := range n {
			a, b := r.IntN(n), r.IntN(n)
			second := []string{ref(b), `{"anyOf":[{"type":"string"},` + ref(b) + `]}`, `{"not":` + ref(b) + `}`, `{"type":"array","items":` + ref(b) + `}`}[r.IntN(4)]
			defs = append(defs, fmt.Sprintf(`"D%d":{"type":"object","properties":{"a":%s,"b":%s,"n":{"type":"integer"}},"additionalProperties":%t}`, i, ref(a), second, r.IntN(2) > 0))
			refs = append(refs, fmt.Sprintf(`"D%d":["D%d","D%d"]`, i, a, b))
			tops = append(tops, fmt.Sprintf(`"e%d":{"fingerprint":"f","inputSchema":true,"payloadSchema":{"type":"object","properties":{"x":%s},"$defs":["D%d"]}}`, i, ref(i), i))
		}
		s := eventsimpl.NewSchemas(`{"$defs":{` + strings.Join(defs, ",") + `},"refs":{` + strings.Join(refs, ",") + `},"events":{` + strings.Join(tops, ",") + `}}`)
		var value func(depth int) string
		value = func(depth int) string {
			if depth == 0 || r.IntN(6) == 0 {
				return []string{`1`, `"s"`, `{}`, `[]`, `{"n":"x"}`, `{"m":1}`, `{"n":2}`}[r.IntN(7)]
			}
			if r.IntN(4) == 0 {
				return `[` + value(depth-1) + `]`
			}
			return `{"a":` + value(depth-1) + `,"b":` + value(depth-1) + `}`
		}
		var library validate.Library
		for _, name := range s.Events() {
			i := s.Describe(name)
			got, err1 := library.Compile(published.Of(&i).Payload)
			want, err2 := validate.Compile(i.PayloadSchema)
			if err1 != nil || err2 != nil {
				t.Fatal(seed, err1, err2)
			}
			for range 40 {
				v := json.RawMessage(`{"x":` + value(4) + `}`)
				if got, want := fmt.Sprint(got.Validate(v)), fmt.Sprint(want.Validate(v)); got != want {
					t.Fatalf("seed %d, %s: %s gives\n%s, want\n%s", seed, name, v, got, want)
				}
			}
		}
	}
}
