package config

import (
	_ "embed"
	"slices"
)

//go:embed config.schema.json
var configSchema []byte

// ConfigSchema returns the JSON Schema (2020-12) of mcpe.yaml, for editors. It accepts what [Load]
// accepts and refuses what is wrong with the form of a file.
func ConfigSchema() []byte { return slices.Clone(configSchema) }
