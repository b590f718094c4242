package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const (
	maxShapes = 10 // maximum number of repeated shapes that are reported for a file
	minCost   = 50 // minimum number of generated lines that the copies of a shape cost
)

func shapeRepeated(p *pass) {
	shapes := schema.NewShapes(false, func(ref *source.Node) string {
		if t, d := p.set.Resolve(ref.Parent); d == nil {
			return fmt.Sprint(t.Node.Range)
		}
		return ref.Text
	})
	places := map[int][]*site{}
	var order []int
	copies := map[*source.Node]bool{} // their content does not count again
	for _, s := range p.sites {
		isCopy := s.root
		for up := s.node.Parent; up != nil; up = up.Parent {
			isCopy = isCopy || copies[up]
		}
		if keyword, _ := s.node.Parent.Key(); isCopy || keyword == "allOf" || !schema.IsShareable(s.node) {
			continue
		}
		n := shapes.Number(s.node)
		places[n] = append(places[n], s)
		copies[s.node] = len(places[n]) > 1
		if len(places[n]) == 2 {
			order = append(order, n)
		}
	}
	if len(order) == 0 {
		return
	}
	built, found := ir.Build(p.set, ir.Options{Package: "lint"})
	if source.HasErrors(found) {
		return // generate reports them
	}
	lines := map[int]int{}
	for _, n := range order {
		lines[n] = golang.Lines(p.declsIn(built, places[n][0].node)) * (len(places[n]) - 1)
	}
	order = slices.DeleteFunc(order, func(n int) bool { return lines[n] < minCost })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[b], lines[a]) })
	for _, n := range order[:min(maxShapes, len(order))] {
		first := places[n][0]
		p.addFinding(first.at, first.event, "write it once under schemas, and refer to it by $ref; mcpe-gen import does this for a document",
			"a schema of this shape is in %d places, and its copies cost %d lines of generated Go", len(places[n]), lines[n])
	}
}

// declsIn returns the declarations for a schema and its subschemas.
func (p *pass) declsIn(built *ir.Package, n *source.Node) (decls []*ir.Decl) {
	ranges := map[source.Range]bool{}
	var visit func(_, _ string, n *source.Node)
	visit = func(_, _ string, n *source.Node) {
		_, at := n.Key()
		ranges[at] = true
		p.set.Each(n, visit)
	}
	visit("", "", n)
	for _, f := range built.Files {
		all := slices.Clone(f.Decls)
		for _, e := range f.Events {
			all = append(all, e.Decls...)
		}
		for _, d := range all {
			if ranges[d.At] {
				decls = append(decls, d)
			}
		}
	}
	return decls
}
