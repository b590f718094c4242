package diagnostic_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
)

// A program prints the findings of the generator and fails if one of them is an error.
func ExampleHasErrors() {
	at := diagnostic.Position{File: "incidents.yaml", Line: 5, Column: 9}
	findings := []diagnostic.Diagnostic{{ // as gen.Generate returns them
		Code: "MCPE131", Severity: diagnostic.Warning, Range: diagnostic.Range{Start: at, End: at}, Message: "the keyword requried is unknown",
	}}
	for _, d := range findings {
		fmt.Println(d)
	}
	fmt.Println("errors:", diagnostic.HasErrors(findings))
	// Output:
	// incidents.yaml:5:9: warning MCPE131: the keyword requried is unknown
	// errors: false
}
