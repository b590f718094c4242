package asyncapi_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
)

func ExampleRead() {
	doc, found := asyncapi.Read("lights.yaml", []byte(`
asyncapi: 3.0.0
info: {title: Lights, version: 1.0.0}
channels:
  measured:
    messages:
      light/measured:
        summary: How bright it is.
        payload: {type: object, properties: {lumens: {type: integer}}}
`))
	for _, e := range doc.Events {
		fmt.Printf("%s: %s: %s %s\n", doc.Title, e.Name, e.Description, e.PayloadSchema)
	}
	fmt.Println(found)
	// Output:
	// Lights: light.measured: How bright it is. {"type":"object","properties":{"lumens":{"type":"integer"}}}
	// []
}
