package ir

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// holdsItself reports whether an array or map contains itself without an intermediate struct. Such a type requires a
// declaration, because no struct on the path has a name.
func (b *builder) holdsItself(n *source.Node) bool {
	return b.returnsToStart(n, func(*source.Node) bool { return false })
}

// holdsItselfUnnamed is like holdsItself, but it considers only paths without declarations. For example, a map can
// refer to itself by a $ref with sibling keywords, which is merged and therefore has no name.
func (b *builder) holdsItselfUnnamed(n *source.Node) bool {
	return b.returnsToStart(n, func(at *source.Node) bool { return b.decls[at] != nil })
}

// returnsToStart reports whether following elements and references from n leads back to n. It stops at the first node
// for which ends returns true.
func (b *builder) returnsToStart(n *source.Node, ends func(*source.Node) bool) bool {
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

// declareSelfHolding declares an array or map that contains itself. An alias of itself would be invalid in Go.
func (b *builder) declareSelfHolding(n *source.Node, at site) *Type {
	d := &Decl{Name: at.name, Role: at.role, Doc: docOf(n), At: keyRange(n), node: n, Form: Defined}
	b.decls[n] = d
	b.declareName(b.names, d.Name, "the type of "+n.Pointer(), d.At)
	*at.root.declList = append(*at.root.declList, d)
	b.all = append(b.all, d)
	d.Type = b.plainType(b.shape(n), at)
	return &Type{Kind: Named, Decl: d}
}
