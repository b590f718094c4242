package sqlite

import (
	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// IncompatibleFeatures implements [engine.SchemaComparer]. Without it, a server without parts would treat each change of
// a schema as incompatible after a restart.
func (s *Store) IncompatibleFeatures(old, now engine.SchemaVersion) (features []string, first string) {
	return evolve.Features(wire.Descriptor{InputSchema: old.InputSchema, PayloadSchema: old.PayloadSchema},
		wire.Descriptor{InputSchema: now.InputSchema, PayloadSchema: now.PayloadSchema})
}
