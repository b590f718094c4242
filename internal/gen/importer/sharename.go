package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// nameParts names the repeated parts and makes shared schemas of them. A part that the event file of an earlier import
// contains keeps its name. Other parts are named after their definition, their title or the member that contains them.
// An enumeration is named after its member, and also after the object that contains it if the first name is in use.
func (s *sharer) nameParts() {
	if s.w.doc.Published {
		s.namePublished()
		return
	}
	n := &partNamer{sharer: s, taken: map[string]bool{}}
	for _, name := range s.w.order {
		n.taken[ir.GoName(name)] = true
	}
	for _, n.onlyPrevious = range []bool{true, false} {
		n.visited, n.previous = map[*part]bool{}, map[int][]string{}
		n.shapes = schema.NewShapes(false, func(ref *source.Node) string { return ref.Text })
		for _, m := range s.w.o.Previous.MembersAt("schemas") {
			shape := n.shapes.Number(m.Value)
			n.previous[shape] = append(n.previous[shape], m.Key)
		}
		for _, p := range s.order {
			if len(p.places) > 1 {
				n.name(p)
			}
		}
	}
}

// A partNamer names the parts of a third-party document.
type partNamer struct {
	*sharer
	// taken is the set of Go names in use. visited is the set of parts that the current pass visited.
	taken   map[string]bool
	visited map[*part]bool
	// previous maps the shapes in the event file of an earlier import to their names. shapes numbers them.
	previous map[int][]string
	shapes   *schema.Shapes
	// onlyPrevious restricts the pass to parts in previous.
	onlyPrevious bool
}

// name names a part after the repeated parts in it and the definitions to which it refers.
func (n *partNamer) name(p *part) {
	if n.visited[p] || p.name != "" {
		return
	}
	n.visited[p] = true
	n.eachInner(p, func(inner *part) {
		if len(inner.places) > 1 || inner.definition != "" {
			n.name(inner)
		}
	})
	names := n.previous[n.shapes.Number(p.schema())]
	claim := func(name string) bool { return n.claim(p, name) }
	own := func(name string) bool { return strings.HasPrefix(name+"_", p.definition+"_") && claim(name) }
	if slices.ContainsFunc(names, own) || slices.ContainsFunc(names, claim) || n.onlyPrevious {
		return
	}
	base, separator := p.definition, "_"
	if at := p.places[0]; base == "" {
		isEnum := at.node.Get("enum") != nil // its title rarely says more than its member
		title := at.node.Word("title")
		if isEnum {
			title = ""
		}
		base, separator = cmp.Or(CleanName(ir.GoName(cmp.Or(title, at.label))), "Shape"), ""
		if n.claim(p, base) || isEnum && at.holder != "" && n.claim(p, CleanName(ir.GoName(at.label+"_of_"+at.holder))) {
			return
		}
	}
	for name, i := base, 2; !n.claim(p, name); i++ {
		name = fmt.Sprintf("%s%s%d", base, separator, i)
	}
}

// claim names a part and makes a shared schema of it, unless the name is empty or in use.
func (n *partNamer) claim(p *part, name string) bool {
	if name == "" || n.taken[ir.GoName(name)] {
		return false
	}
	n.taken[ir.GoName(name)] = true
	p.name = name
	n.replace(p)
	return true
}

// namePublished gives each name to the most used of its definitions. A definition that refers to one without a name has
// no name either.
func (s *sharer) namePublished() {
	most := map[string]*part{}
	for _, p := range s.order {
		if best := most[p.definition]; best == nil || len(p.places) > len(best.places) {
			most[p.definition] = p
		}
	}
	for name, p := range most {
		p.name = name
	}
	for changed := true; changed; {
		changed = false
		for _, p := range s.order {
			s.eachInner(p, func(inner *part) {
				if p.name != "" && inner.name == "" {
					p.name, changed = "", true
				}
			})
		}
	}
}
