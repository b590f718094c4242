package lint_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

func ExampleCheck() {
	const file = `version: 1
events:
  - name: note.added
    description: Fires when a note is added.
    inputSchema: {type: object}
    payloadSchema:
      type: object
      properties:
        id: {type: string}
        body: {type: string} # mcpe:ignore PAYLOAD_FREE_TEXT notes are short
        addedAt: {type: string}
      required: [id]
`
	read := func(string) ([]byte, error) { return []byte(file), nil }
	set, _ := schema.Load([]string{"notes.yaml"}, schema.Options{ReadFile: read})
	for _, d := range lint.Check(set, lint.Options{ReadFile: read}) {
		fmt.Printf("%s (%s)\n", d, d.Hint)
	}
	// Output:
	// notes.yaml:5:5: error INPUT_OPEN: the inputSchema of note.added accepts arguments that it does not declare (add additionalProperties: false)
	// notes.yaml:11:9: warning TIME_FORMAT: "addedAt" is named like a time and is any string (add format: date-time)
}
