package typescript

import (
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// reserved lists names with another meaning in events.ts: declarations for all event types, and generic types of the
// language.
var reserved = []string{"Events", "EventName", "Occurrence", "Tasks", "Unlisted", "NoArguments", "Array", "Partial", "Record"}

// Name gives every type of p its TypeScript name, which is its Go name, so that both languages use the same word. If
// the name is taken in TypeScript, it gets the suffix Type, and a number if that is also taken (TS-5).
func Name(p *model.Package) {
	names := map[string]bool{}
	for _, n := range reserved {
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
