package readtool_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

func ExampleNew() {
	tool := readtool.New(events.Info{
		Name:          "incident.created",
		Description:   "Fires when a new incident is created.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"service":{"type":"string"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`),
	}, "read_incident_created", "cursor", "maxEvents")
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(tool.Tool.InputSchema.(json.RawMessage), &schema); err != nil {
		fmt.Println(err)
	}
	fmt.Println(tool.Tool.Name, len(schema.Properties), tool.Tool.Annotations.ReadOnlyHint)
	// Output: read_incident_created 3 true
}
