package gen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// Names that differ only in the separators at their ends, such as FHIR's url and _url, are told apart: as members, with
// and without types of their own, and as values.
func TestNamesThatDifferInOuterSeparators(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	names := []string{"url", "_url", "__url", "url_", "-url", ".url", "_id", "2d", "_2d", "-2d", "url-", "日本", "_日本"}
	var members, values []string
	for _, n := range names {
		members = append(members, fmt.Sprintf(`%q:{"type":"object","properties":{"a":{"enum":["_x","x"]}}}`, n))
		values = append(values, fmt.Sprintf("%q", n))
	}
	enum := fmt.Sprintf(`{"enum":[%s,"","_","-"]}`, strings.Join(values, ","))
	object := fmt.Sprintf(`{"type":"object","properties":{%s,"e":{"type":"array","items":%s}}}`, strings.Join(members, ","), enum)
	trips := &roundTrips{dir: t.TempDir()}
	write(t, trips.dir, "e.json", fmt.Sprintf(`{"version":1,"package":"p","schemas":{"_Thing":%s,"Thing":{"allOf":[%[1]s,{"type":"object","properties":{"_url":{"type":"object"}}}]}},
		"events":[{"name":"e","description":"d","inputSchema":{"type":"object"},"payloadSchema":{"type":"object","properties":{
			"t":{"$ref":"#/schemas/Thing"},"_t":{"$ref":"#/schemas/_Thing"},"named":{"type":"string","x-go-name":"Own"},"_named":{"type":"string"}}}}]}`, object))
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf(`%q:{"a":"_x"}`, n))
	}
	thing := fmt.Sprintf(`{%s,"e":[%s,"","_","-"]}`, strings.Join(all, ","), strings.Join(values, ","))
	trips.documents = []document{{"all", "p.EPayload", json.RawMessage(fmt.Sprintf(`{"t":%s,"_t":%[1]s,"named":"a","_named":"b"}`, thing)), func(string) bool { return true }}}
	trips.requests = []gen.Request{{Dir: trips.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}}}
	trips.run(t)
	text := ""
	for _, f := range plan(t, trips.requests[0]).Unchanged {
		text += strings.Join(strings.Fields(string(f.Content)), " ")
	}
	for _, want := range []string{
		"URL *ThingURL `json:\"url,omitzero\"`", "UnderscoreURL *ThingUnderscoreURL `json:\"_url,omitzero\"`", "URLUnderscore *ThingURLUnderscore `json:\"url_,omitzero\"`",
		"ID *ThingID `json:\"_id,omitzero\"`", "type UnderscoreThing struct", "Named *string `json:\"_named,omitzero\"`", "ThingEItemUnderscoreURL ThingEItem = \"_url\"",
		"X2d *ThingX2d", "Underscore2d *ThingUnderscore2d",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}
