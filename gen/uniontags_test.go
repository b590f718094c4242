package gen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// The types that come with a union give way to its variants and to schemas, whatever their tags and names are: the
// code compiles, and each variant, and one that the schema does not list, survives a round trip.
func TestUnionTagsLikeItsHelpers(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	tags := []string{"unknown", "variant", "card"}
	var variants, refs, schemas []string
	for _, tag := range tags {
		variants = append(variants, fmt.Sprintf(`{"type":"object","properties":{"kind":{"const":%q},"n":{"type":"integer"}},"required":["kind"]}`, tag))
		schemas = append(schemas, fmt.Sprintf(`"Method%s":%s`, strings.ToUpper(tag[:1])+tag[1:], variants[len(variants)-1]))
		refs = append(refs, fmt.Sprintf(`{"$ref":"#/schemas/Method%s"}`, strings.ToUpper(tag[:1])+tag[1:]))
	}
	trips := &roundTrips{dir: t.TempDir()}
	write(t, trips.dir, "e.json", fmt.Sprintf(`{"version":1,"package":"p","schemas":{"Method":{"oneOf":[%s]},%s,"EArgumentsUVariant":{"type":"string","enum":["a"]}},"events":[
		{"name":"e","description":"d","inputSchema":{"type":"object","properties":{"u":{"oneOf":[%s]}}},
		"payloadSchema":{"type":"object","properties":{"u":{"oneOf":[%[3]s]},"m":{"$ref":"#/schemas/Method"}}}}]}`,
		strings.Join(refs, ","), strings.Join(schemas, ","), strings.Join(variants[:1], ",")+","+variants[2]))
	for _, tag := range append(tags, "of a later server") {
		for typ, member := range map[string]string{"p.EPayload": "m", "p.EArguments": "u"} {
			data := fmt.Sprintf(`{%q:{"kind":%q,"n":5}}`, member, tag)
			trips.documents = append(trips.documents, document{tag, typ, json.RawMessage(data), func(string) bool { return true }})
		}
	}
	trips.requests = []gen.Request{{Dir: trips.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}}}
	trips.run(t)
	p := plan(t, trips.requests[0])
	text := ""
	for _, f := range p.Unchanged {
		text += string(f.Content)
	}
	for _, want := range []string{
		"EPayloadUUnknown struct {", "EPayloadUUnknownVariant struct {\n\tRaw ", "EPayloadUVariant interface {", "EPayloadUCard struct {",
		"EArgumentsUVariant string", "EArgumentsUVariantType interface {", "MethodVariantType interface {", "MethodUnknown struct {", "MethodUnknownVariant struct {\n\tRaw ",
	} {
		if !strings.Contains(text, "type "+want) {
			t.Errorf("no type %q", want)
		}
	}
}
