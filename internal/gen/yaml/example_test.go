package yaml_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
)

func ExampleBlock() {
	n, _ := source.Parse("example.json", []byte(`{"version": 1, "enum": ["true", "P1"], "note": "a: b", "text": "first\nsecond"}`))
	fmt.Print(yaml.Block(n, 0))
	// Output:
	// version: 1
	// enum: ['true', P1]
	// note: 'a: b'
	// text: |-
	//   first
	//   second
}
