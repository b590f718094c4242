package typescript

import (
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// reservedNames lists the names that events.ts uses for other purposes, such as declarations for all event types and
// built-in types.
var reservedNames = []string{"Events", "EventName", "Occurrence", "Tasks", "Unlisted", "NoArguments", "Array", "Partial", "Record"}

// Name sets the TypeScript name of every type in p. It is the same as the Go name if possible. If that name is taken in
// TypeScript, Name adds the suffix Type, and also a number if necessary (TS-5).
func Name(p *model.Package) {
	names := newNames()
	for i := range p.Types { // first assign names that stay unchanged
		if t := &p.Types[i]; !names[t.Name] {
			t.TS = &model.TSType{Name: t.Name}
			names[t.Name] = true
		}
	}
	for i := range p.Types {
		t := &p.Types[i]
		if t.TS == nil {
			t.TS = &model.TSType{Name: source.UniqueName(t.Name+"Type", "", names)}
		}
	}
	for i := range p.Types {
		if t := &p.Types[i]; t.Type.Kind == model.Union && t.Type.Discriminator != "" {
			t.TS.OrUnknown = source.UniqueName(t.TS.Name+"OrUnknown", "", names)
		}
	}
}

// newNames returns the set of the reserved names.
func newNames() map[string]bool {
	names := map[string]bool{}
	for _, n := range reservedNames {
		names[n] = true
	}
	return names
}
