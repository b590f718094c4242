package source_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func ExampleParse() {
	n, found := source.Parse("f.yaml", []byte("price: 1.50\nday: 2027-03-01\nmask: 0x10\n"))
	fmt.Println(n.Get("price").Range, string(n.Get("price").JSON()), n.Get("day").Kind)
	for _, d := range found {
		fmt.Println(d)
	}
	// Output:
	// f.yaml:1:8 1.50 string
	// f.yaml:3:7: error MCPE105: 0x10 is not a number of JSON
}
