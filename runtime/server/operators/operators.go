// Package operators lets operators inspect and change the subscriptions of a server.
package operators

import (
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/durable"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
)

// New returns the part of a server for operators. Set server.Options.Operators to it. Server.Admin then returns the
// interface that operators use, for example with package admin.
func New() part.Part {
	return durable.NewPart(part.Operators, nil, func(_ *part.Core, o *durable.Options) error {
		o.Operators = true
		return nil
	})
}
