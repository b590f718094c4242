package ir

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// holdsItself reports whether an array or map leads back to itself only through arrays, maps and references. No
// struct on that path has a name to refer to. Entries of schemas have names; schemas below $defs do not.
func (b *builder) holdsItself(n *source.Node) bool {
	return b.leadsBack(n, func(*source.Node) bool { return false })
}

// holdsItselfUnnamed is like holdsItself for paths without declarations. An example is a map whose values have a
// reference with keywords next to it: the reference is merged, so the path has no name.
func (b *builder) holdsItselfUnnamed(n *source.Node) bool {
	return b.leadsBack(n, func(at *source.Node) bool { return b.decls[at] != nil })
}

// leadsBack reports whether the path of arrays, maps and references from n returns to n before ends reports true.
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

// selfHolding declares such an array or map. finish later turns it into a defined type.
func (b *builder) selfHolding(n *source.Node, at site) *Type {
	d := &Decl{Name: at.name, Role: at.role, Doc: docOf(n), At: keyRange(n), Form: Alias}
	b.decls[n] = d
	b.declare(b.names, d.Name, "the type of "+n.Pointer(), d.At)
	*at.root.into = append(*at.root.into, d)
	b.all = append(b.all, d)
	d.Type = b.plainType(b.shape(n), at)
	return &Type{Kind: Named, Decl: d}
}
