package config_test

import (
	"fmt"
	"path/filepath"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
)

func ExampleLoad() {
	c, found := config.Load("mcpe.yaml", func(string) ([]byte, error) {
		return []byte("version: 1\npackages:\n  - {schemas: [events/*.yaml], out: internal/incidents, emit: [server, clinet]}\n"), nil
	})
	fmt.Println(filepath.ToSlash(c.Packages[0].Out), c.Packages[0].Emit)
	for _, d := range found {
		fmt.Println(d)
	}
	// Output:
	// internal/incidents [server clinet]
	// mcpe.yaml:3:72: error MCPE123: an element of emit cannot be "clinet"
}
