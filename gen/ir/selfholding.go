package ir

import "github.com/mcpe-gen/mcpe-gen/gen/source"

// holdsItself reports whether an array or map leads back to itself through nothing but arrays, maps
// and references: then no struct on the way has a name to refer to. Entries of schemas have one; a
// schema below $defs has not.
func (b *builder) holdsItself(n *source.Node) bool {
	return b.leadsBack(n, func(*source.Node) bool { return false })
}

// holdsItselfUnnamed is holdsItself where nothing on the way is declared, such as a map whose values are described
// by a reference with keywords beside it: the reference is merged, and none is met that could be a name.
func (b *builder) holdsItselfUnnamed(n *source.Node) bool {
	return b.leadsBack(n, func(at *source.Node) bool { return b.decls[at] != nil })
}

// leadsBack reports whether the way of arrays, maps and references from n comes to n again before it comes to
// something that ends it.
func (b *builder) leadsBack(n *source.Node, ends func(*source.Node) bool) bool {
	seen := map[*source.Node]bool{}
	for at := n; !seen[at]; {
		seen[at] = true
		switch sh := b.shape(at); sh.kind {
		case arrayShape, mapShape:
			at = sh.elem
		case refShape:
			at = sh.target.Node
		default:
			return false
		}
		if at == nil || ends(at) {
			return false
		}
		if at == n {
			return true
		}
	}
	return false
}

// selfHolding declares such an array or map; finish makes a defined type of it.
func (b *builder) selfHolding(n *source.Node, at site) *Type {
	d := &Decl{Name: at.name, Role: at.role, Doc: docOf(n), At: keyRange(n), Form: Alias}
	b.decls[n] = d
	b.declare(b.names, d.Name, "the type of "+n.Pointer(), d.At)
	*at.root.into = append(*at.root.into, d)
	b.all = append(b.all, d)
	d.Type = b.plainType(b.shape(n), at)
	return &Type{Kind: Named, Decl: d}
}
