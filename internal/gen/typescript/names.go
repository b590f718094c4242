package typescript

import (
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// reservedNames lists the names that events.ts uses for other purposes, such as declarations for all event types and
// built-in types.
var reservedNames = []string{"Events", "EventName", "Occurrence", "Tasks", "Unlisted", "NoArguments", "Array", "Partial", "Record"}

// Name sets the TypeScript name of every type in p. It is the same as the Go name if possible. If that name is taken in
// TypeScript, Name adds the suffix Type, and also a number if necessary (TS-5).
func Name(p *model.Package) {
	names := map[string]bool{}
	for _, n := range reservedNames {
		names[n] = true
	}
	yields := func(n string) bool { return names[n] }
	for i := range p.Types { // first assign names that stay unchanged
		if t := &p.Types[i]; !yields(t.Name) {
			t.TS = &model.TSType{Name: t.Name}
			names[t.Name] = true
		}
	}
	free := func(name string) string {
		at := name
		for i := 2; names[at]; i++ {
			at = name + strconv.Itoa(i)
		}
		names[at] = true
		return at
	}
	for i := range p.Types {
		t := &p.Types[i]
		if t.TS == nil {
			t.TS = &model.TSType{Name: free(t.Name + "Type")}
		}
	}
	for i := range p.Types {
		if t := &p.Types[i]; t.Type.Kind == model.Union && t.Type.Discriminator != "" {
			t.TS.OrUnknown = free(t.TS.Name + "OrUnknown")
		}
	}
}
