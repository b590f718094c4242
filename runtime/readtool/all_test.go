package readtool_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// The tools of a package have the order of its event types and the names that their authors chose; one
// whose arguments are a union has none (Q1).
func TestAll(t *testing.T) {
	const schemas = `"description":"D","fingerprint":"f","inputSchema":{"type":"object"},"payloadSchema":{"type":"object"}`
	s := eventsimpl.NewSchemas(`{"events":{
		"z.made":{` + schemas + `},
		"a.made":{"tool":{"name":"fetch"},` + schemas + `},
		"m.made":{"tool":{"cursor":"after","maxEvents":"n"},` + schemas + `},
		"w.made":{"tool":{"wait":"seconds"},` + schemas + `},
		"either":{"description":"D","fingerprint":"f","inputSchema":{"type":"object","oneOf":[{},{}]},"payloadSchema":{"type":"object"}},
		"broken":{}}}`)
	info := func(name string) events.Info {
		return events.Info{Name: name, Description: "D", InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
	}
	waits := readtool.Of(info("w.made"))
	waits.WaitArgument = "seconds"
	input, err := toolschema.InputSchema(info("w.made").InputSchema, toolschema.ArgumentNames{Wait: "seconds"}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	waits.Tool.InputSchema = input
	want := []readtool.Tool{
		readtool.Of(info("z.made")),
		readtool.New(info("a.made"), "fetch", "cursor", "maxEvents"),
		readtool.New(info("m.made"), "read_m_made", "after", "n"),
		waits,
		readtool.Of(events.Info{Name: "broken"}),
	}
	if got := readtool.All(s); !reflect.DeepEqual(got, want) {
		t.Errorf("the tools are\n%+v, want\n%+v", got, want)
	}
	if got := readtool.All(eventsimpl.NewSchemas("damaged")); got != nil {
		t.Errorf("a damaged file has the tools %+v", got)
	}
}
