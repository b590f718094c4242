package breaking_test

import (
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

func ExampleCompare() {
	const before = `version: 1
events:
  - name: incident.created
    description: Fires when an incident is created.
    inputSchema: {type: object, additionalProperties: false}
    payloadSchema:
      type: object
      properties:
        id: {type: string}
      required: [id]
`
	load := func(name, text string) []breaking.Package {
		set, _ := schema.Load([]string{name}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
		return []breaking.Package{{Set: set}}
	}
	after := strings.Replace(before, "{type: string}", "{type: [string, 'null']}", 1)
	for _, d := range breaking.Compare(load("v1.yaml", before), load("v2.yaml", after), breaking.Options{}) {
		fmt.Println(d)
	}
	// Output:
	// v2.yaml:9:9: error PAYLOAD_NULL_ADDED: incident.created payloadSchema/properties/id: was string and may now be null
}
