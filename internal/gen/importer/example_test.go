package importer_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func ExampleWrite() {
	text, found, err := importer.Write(importer.Events([]wire.Descriptor{{
		Name: "note.added", Description: "Fires when somebody adds a note.", Delivery: []string{"poll"},
		InputSchema:   json.RawMessage(`{"type":"object"}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}}), importer.Options{From: "https://example.com/mcp"})
	fmt.Print(string(text), found, err)
	// Output:
	// # Event types of https://example.com/mcp, written by mcpe-gen import. It is yours to edit.
	// # The schemas are as published; a change of them shows as drift.
	// version: 1
	//
	// events:
	//   - name: note.added
	//     description: Fires when somebody adds a note.
	//     delivery: [poll]
	//     inputSchema: {type: object}
	//     payloadSchema:
	//       type: object
	//       properties:
	//         text: {type: string}
	//       required: [text]
	// [] <nil>
}
