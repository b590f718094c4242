package readtool_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// Generated code makes the tool of an event type like this.
func ExampleNew() {
	read := readtool.New(events.Info{
		Name: "incident.created", Description: "Fires when a new incident is created.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"severity":{"type":"string"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"incidentId":{"type":"string"}},"required":["incidentId"]}`),
	}, "read_incident_created", "cursor", "maxEvents")
	fmt.Println(read.Tool.Name, "reads", read.Event)
	var input struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(read.Tool.InputSchema.(json.RawMessage), &input); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"severity", "cursor", "maxEvents"} {
		fmt.Println(name, input.Properties[name] != nil)
	}
	// Output:
	// read_incident_created reads incident.created
	// severity true
	// cursor true
	// maxEvents true
}

func ExampleSelect() {
	tools := []readtool.Tool{
		readtool.Of(events.Info{Name: "incident.created"}),
		readtool.Of(events.Info{Name: "incident.closed"}),
	}
	for _, t := range readtool.Select(tools, "incident.closed") {
		fmt.Println(t.Tool.Name)
	}
	// Output: read_incident_closed
}
