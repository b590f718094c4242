package schema_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

func ExampleLoad() {
	const file = `version: 1
schemas:
  Severity: {type: string, enum: [P1, P2]}
events:
  - name: incident.created
    description: Fires when an incident is created.
    inputSchema:
      type: object
      properties: {severity: {$ref: '#/schemas/Severity', x-match: /severty}}
    payloadSchema:
      type: object
      properties: {severity: {$ref: '#/schemas/Severity'}}
`
	set, found := schema.Load([]string{"incidents.yaml"}, schema.Options{
		ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
	})
	for _, d := range found {
		fmt.Printf("%s (%s)\n", d, d.Hint)
	}
	fmt.Println(string(set.Published(set.Files[0].Events[0].Input)))
	// Output:
	// incidents.yaml:9:68: error MCPE151: x-match path "/severty": the payload has no member "severty" (did you mean "severity"?)
	// {"type":"object","properties":{"severity":{"$ref":"#/$defs/Severity"}},"$defs":{"Severity":{"type":"string","enum":["P1","P2"]}}}
}
