package evolve_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func ExampleCompare() {
	published := wire.Descriptor{
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"severity":{"enum":["P1","P2"]}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
	}
	changed := wire.Descriptor{
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"severity":{"enum":["P1","P2","P3"]},"service":{"type":"string"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"incidentId":{"type":"string"}},"required":["incidentId"]}`),
	}
	for _, c := range evolve.Compare(published, changed) {
		fmt.Println(c)
	}
	// Output: payloadSchema/properties/id: field removed or renamed
}
