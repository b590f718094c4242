package validate_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

func ExampleCompile() {
	schema, err := validate.Compile(json.RawMessage(`{
		"type": "object",
		"properties": {"severity": {"enum": ["P1", "P2"]}},
		"required": ["severity"],
		"additionalProperties": false}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = schema.Validate(json.RawMessage(`{"severity": "P3", "Severity": "P1"}`))
	var invalid *validate.Error
	if errors.As(err, &invalid) {
		for _, f := range invalid.Fields {
			fmt.Println(f.Path, f.Message)
		}
	}
	// Output:
	// /Severity is not allowed
	// /severity must be one of "P1", "P2"
}
