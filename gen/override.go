package gen

import (
	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
)

// Overrides are changes to schemas, made as they are read, so that schemas of others can be used as
// they are published. They come from [ReadOverrides] and remember where they had an effect, over all
// requests that have them; they are not for use by several goroutines at a time.
type Overrides interface {
	// Unused reports the overrides that had no effect: they name a place that is not there, most often
	// because it has moved. Where some says that only some of the files were read, those about other
	// files are left out.
	Unused(some bool) []diagnostic.Diagnostic
}

// ReadOverrides reads the overrides of the configuration file at path, an mcpe.yaml; they are nil
// when it has none, or when a diagnostic is an error.
func ReadOverrides(path string) (Overrides, []diagnostic.Diagnostic) {
	cfg, found := config.Load(path, nil)
	if cfg == nil || cfg.Overrides == nil || diagnostic.HasErrors(found) {
		return nil, found
	}
	return cfg.Overrides, found
}

// overridesOf returns what a request holds, nil for none.
func overridesOf(o Overrides) (*schema.Overrides, error) {
	switch o := o.(type) {
	case nil:
		return nil, nil
	case *schema.Overrides:
		return o, nil
	default:
		return nil, usage("Request.Overrides is a %T: overrides come from ReadOverrides", o)
	}
}
