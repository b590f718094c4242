package config

import (
	_ "embed"
	"slices"
)

//go:embed config.schema.json
var configSchema []byte

// ConfigSchema returns the JSON Schema (2020-12) of mcpe.yaml, for editors. It accepts every file that [Load]
// accepts, and rejects files of the wrong form.
func ConfigSchema() []byte { return slices.Clone(configSchema) }
