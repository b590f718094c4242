package typescript

import (
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// taken are the names that events.ts uses for something else: what it declares for all event types, and the generic
// types of the language that it writes.
var taken = []string{"Events", "EventName", "Occurrence", "Tasks", "Unlisted", "NoArguments", "Array", "Partial", "Record"}

// Name gives every type of p its TypeScript name: the one that it has in Go, so that both sides speak of one thing by
// one word. Where TypeScript has something else of that name it gets Type behind it, and a number where that is taken
// too (TS-5).
func Name(p *model.Package) {
	names := map[string]bool{}
	for _, n := range taken {
		names[n] = true
	}
	yields := func(n string) bool { return names[n] }
	for i := range p.Types { // whoever keeps its name has it before anybody gets another
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
