package gen

import (
	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

// Overrides change schemas as they are read, so third-party schemas can be used as published. [ReadOverrides] returns
// them. They record which overrides had an effect in any request. They are not safe for concurrent use.
type Overrides interface {
	// Unused reports the overrides that had no effect. The usual cause is that the target has moved. If some is true,
	// only some of the files were read, and overrides for other files are not reported.
	Unused(some bool) []diagnostic.Diagnostic
}

// ReadOverrides reads the overrides from the configuration file at path, such as mcpe.yaml. The result is nil if the
// file does not have overrides or a diagnostic is an error.
func ReadOverrides(path string) (Overrides, []diagnostic.Diagnostic) {
	cfg, found := config.Load(path, nil)
	if cfg == nil || cfg.Overrides == nil || diagnostic.HasErrors(found) {
		return nil, found
	}
	return cfg.Overrides, found
}

// overridesOf returns the overrides of a request, or nil.
func overridesOf(o Overrides) (*schema.Overrides, error) {
	switch o := o.(type) {
	case nil:
		return nil, nil
	case *schema.Overrides:
		return o, nil
	default:
		return nil, usage("Request.Overrides has type %T: use the result of ReadOverrides", o)
	}
}
