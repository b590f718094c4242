package sample_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
)

func ExampleValue() {
	v, ok := sample.Value(json.RawMessage(`{
		"type": "object",
		"properties": {"incidentId": {"type": "string"}, "severity": {"enum": ["P1", "P2"]}, "openedAt": {"type": "string", "format": "date-time"}}
	}`))
	fmt.Println(string(v), ok)
	// Output: {"incidentId":"incident-1","severity":"P1","openedAt":"2026-11-20T08:00:00Z"} true
}
