package typescript

import (
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// argumentNames returns names for the types that are different in arguments (TS-10). Enums are closed in arguments,
// because a server rejects other values. A type that is used only in arguments keeps its name. A type that is also used
// in payloads has a second declaration.
func (w *writer) argumentNames(p *model.Package) map[string]string {
	in, out := map[string]bool{}, map[string]bool{}
	for _, e := range p.Events {
		w.addReachable(e.Arguments.Type, in)
		w.addReachable(e.Payload.Type, out)
	}
	for _, t := range p.Tasks {
		w.addReachable(t.Arguments.Type, in)
		w.addReachable(t.Update.Type, out)
		w.addReachable(t.Result.Type, out)
	}
	if p.Conversation != nil && p.Conversation.Context != nil {
		w.addReachable(p.Conversation.Context.Type, out)
	}
	taken := newNames()
	for _, d := range p.Types {
		taken[d.TS.Name], taken[d.TS.OrUnknown] = true, true
	}
	names := map[string]string{}
	closes := w.closedTypes(p, in)
	for _, d := range p.Types {
		if !closes[d.Name] {
			continue
		}
		names[d.Name] = d.TS.Name
		if out[d.Name] {
			names[d.Name] = source.UniqueName(d.TS.Name+"Argument", "", taken)
		}
	}
	return names
}

// addReachable adds a type and all types that it refers to.
func (w *writer) addReachable(name string, into map[string]bool) {
	if into[name] {
		return
	}
	into[name] = true
	eachType(&w.types[name].Type, func(t *model.Type) {
		if t.Kind == model.Ref {
			w.addReachable(t.Ref, into)
		}
	})
}

// closedTypes returns the types in among that contain or refer to a closed enum.
func (w *writer) closedTypes(p *model.Package, among map[string]bool) map[string]bool {
	closes := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for i := range p.Types {
			d := &p.Types[i]
			if !among[d.Name] || closes[d.Name] {
				continue
			}
			eachType(&d.Type, func(t *model.Type) {
				if t.Kind == model.Enum && !t.AnyOther || t.Kind == model.Ref && closes[t.Ref] {
					closes[d.Name], changed = true, true
				}
			})
		}
	}
	return closes
}

// name returns the name of a type in the current context.
func (w *writer) name(of string) string {
	if w.closed {
		return w.argumentName(of)
	}
	return w.types[of].TS.Name
}

// argumentName returns the name of a type in arguments.
func (w *writer) argumentName(of string) string {
	if name := w.argument[of]; name != "" {
		return name
	}
	return w.types[of].TS.Name
}

// eachType visits a type and its inner types, but does not follow references.
func eachType(t *model.Type, visit func(*model.Type)) {
	visit(t)
	for _, of := range []*model.Type{t.Items, t.Rest, t.Extra} {
		if of != nil {
			eachType(of, visit)
		}
	}
	for i := range t.Elements {
		eachType(&t.Elements[i], visit)
	}
	for i := range t.Members {
		eachType(&t.Members[i].Type, visit)
	}
	for i := range t.Variants {
		eachType(&t.Variants[i].Type, visit)
	}
}
