package readtool_test

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// Generated code holds one such value for each event type.
func Example() {
	read := readtool.Tool{
		Event: "incident.created", CursorArgument: "cursor", MaxEventsArgument: "maxEvents",
		Tool: mcp.Tool{
			Name:        "read_incident_created",
			Description: "Reads the next occurrences of incident.created.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"cursor":{"type":["string","null"]},"maxEvents":{"type":"integer","minimum":1}}}`),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		},
	}
	fmt.Println(read.Tool.Name, "reads", read.Event)
	// Output: read_incident_created reads incident.created
}
