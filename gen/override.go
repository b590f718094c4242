package gen

import (
	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
)

// Overrides change schemas as they are read, so third-party schemas can be used as published. [ReadOverrides] returns
// them. They record which settings of their configuration had an effect in any request. They are not safe for concurrent
// use.
type Overrides interface {
	// Unused reports settings of the configuration that had no effect. These are overrides, and entries of types, lint
	// and silence. The usual cause is that the target has moved. If some is true, only some of the files were read, and
	// Unused reports only overrides for these files.
	Unused(some bool) []diagnostic.Diagnostic
}

// ReadOverrides reads the overrides from the configuration file at path, such as mcpe.yaml. The result is nil if a
// diagnostic is an error.
func ReadOverrides(path string) (Overrides, []diagnostic.Diagnostic) {
	cfg, found := config.Load(path, nil)
	if cfg == nil || diagnostic.HasErrors(found) {
		return nil, found
	}
	return cfg, found
}

// configOf returns the configuration of the overrides of a request, or an empty configuration for nil.
func configOf(o Overrides) (*config.Config, error) {
	switch o := o.(type) {
	case nil:
		return &config.Config{}, nil
	case *config.Config:
		return o, nil
	default:
		return nil, usage("Request.Overrides has type %T: use the result of ReadOverrides", o)
	}
}
