package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const privateKey = "x-private"

// PrivateSchema returns the schema with x-private among the schemas of a value, or nil. It follows $ref, allOf, anyOf
// and oneOf.
func (s *Set) PrivateSchema(schemas ...*source.Node) *source.Node {
	for _, view := range s.Views(schemas...) {
		if view.Get(privateKey) != nil {
			return view
		}
	}
	return nil
}

// privateBelow returns a schema with x-private that the given schemas contain or refer to, or nil.
func (s *Set) privateBelow(schemas ...*source.Node) *source.Node {
	seen := make(map[*source.Node]bool)
	for queue := slices.Clone(schemas); len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		switch {
		case seen[n]:
			continue
		case n.Get(privateKey) != nil:
			return n
		}
		seen[n] = true
		if to, ok := s.Target(n, "$ref"); ok {
			queue = append(queue, to)
		}
		s.Each(n, func(keyword, _ string, inner *source.Node) {
			if keyword != "$defs" && keyword != "definitions" { // a definition counts if a $ref leads to it
				queue = append(queue, inner)
			}
		})
	}
	return nil
}

// isOpen reports whether a path of the payload avoids private members. If it leads to one, into one or to a value that
// contains one, isOpen adds a diagnostic. what names the keyword that has the path.
func (l *loader) isOpen(e *Event, what, path string, at source.Range) bool {
	tokens, _ := wire.SplitPointer(path)
	here := []*source.Node{e.Payload}
	var private *source.Node
	for _, token := range tokens {
		if here = childSchemas(l.set.Views(here...), token, true); private == nil {
			private = l.set.PrivateSchema(here...)
		}
	}
	if private == nil {
		private = l.set.privateBelow(here...)
	}
	if private != nil {
		l.Report(source.New("MCPE166", at, "%s %q leads to a private member: callers could learn its value without the hook PerPrincipal", what, path).
			WithRelated(private.Member(privateKey).KeyRange, "it is private here").WithHint("name a member that all callers may see"))
	}
	return private == nil
}

// misplaced reports the x-private of n, which the schema at contains or refers to. If n is nil, it does nothing.
func (l *loader) misplaced(n, at *source.Node, format string, args ...any) {
	if n == nil {
		return
	}
	l.Report(source.New("MCPE165", n.Member(privateKey).KeyRange, format, args...).WithRelated(at.Range, "in this schema").
		WithHint("it belongs to a named, optional member of a payloadSchema"))
}

// checkPrivate checks each x-private that a payload reaches, and describes the event's private members. In the schemas
// of arguments, tasks and the conversation, it reports x-private.
func (l *loader) checkPrivate(r *root) {
	found := l.set.privateBelow(r.node)
	switch {
	case found == nil || r.entry != nil:
	case r.event == nil || r.node != r.event.Payload:
		l.misplaced(found, r.node, "x-private is not allowed in %s", r.name)
	case l.set.PrivateSchema(r.node) != nil:
		l.misplaced(l.set.PrivateSchema(r.node), r.node, "x-private is not allowed on the whole %s; the hook PerPrincipal withholds events", r.name)
	default:
		w := &privateWalk{loader: l, known: make(map[string]int)}
		w.element([]*source.Node{r.node})
		r.event.Private = w.elements
	}
}

// A privateWalk describes the values of a payload that contain private members.
type privateWalk struct {
	*loader
	elements published.Private
	// known maps the schemas of a value to the index of its element.
	known map[string]int
}

// element returns the index of the element for a value with the given schemas, and adds it if it is new.
func (w *privateWalk) element(schemas []*source.Node) int {
	key := ""
	for _, n := range schemas {
		key += fmt.Sprintf("%p ", n)
	}
	if index, ok := w.known[key]; ok {
		return index
	}
	index, members := len(w.elements), map[string]int{}
	w.known[key], w.elements = index, append(w.elements, members)
	views := w.set.Views(schemas...)
	var unnamed []*source.Node
	for _, view := range views {
		w.set.Each(view, func(keyword, name string, inner *source.Node) {
			switch keyword {
			case "properties":
				members[published.Named+name] = w.next(schematree.Member(views, name))
			case "patternProperties", "additionalProperties", "items", "prefixItems", "additionalItems":
				w.misplaced(w.set.PrivateSchema(inner), inner, "x-private is not allowed on a value below %s", keyword)
				unnamed = append(unnamed, inner)
			case "allOf", "anyOf", "oneOf", "$defs", "definitions":
			default:
				w.misplaced(w.set.privateBelow(inner), inner, "x-private is not allowed below %s", keyword)
			}
		})
		if required := view.Get("required"); required != nil {
			for _, name := range required.Items {
				w.misplaced(w.set.PrivateSchema(schematree.Member(views, name.Text)...), required, "x-private is not allowed on the required member %q", name.Text)
			}
		}
	}
	members[published.Unnamed] = w.next(unnamed)
	if members[published.Unnamed] == published.Keep { // as for members that are not listed
		maps.DeleteFunc(members, func(_ string, next int) bool { return next == published.Keep })
	}
	return index
}

// next returns what an element of [published.Private] contains for values with the given schemas.
func (w *privateWalk) next(schemas []*source.Node) int {
	switch {
	case w.set.PrivateSchema(schemas...) != nil:
		return published.Remove
	case w.set.privateBelow(schemas...) != nil:
		return w.element(schemas)
	}
	return published.Keep
}
