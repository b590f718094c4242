package ir

import (
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// siteOf returns the site of a schema that only a $ref refers to. It depends only on the path from the root, so the
// type name does not depend on the order of references. It returns false if the schema has no root.
func (b *builder) siteOf(n *source.Node) (site, bool) {
	var path []*source.Node // from the child of the root down to n
	at := n
	for b.roots[at] == nil {
		if at.Parent == nil {
			return site{}, false
		}
		path = append(path, at)
		at = at.Parent
	}
	r := b.roots[at]
	s := site{name: r.decl.Name, role: r.decl.Role, root: r}
	slices.Reverse(path)
	for i := 0; i < len(path); i++ {
		key, _ := path[i].Key()
		switch {
		case (key == "properties" || key == "$defs" || key == "definitions") && i+1 < len(path):
			i++
			name, _ := path[i].Key()
			if key == "properties" {
				s = s.below(path[i], b.goName(path[i], name), "the member "+name)
				break
			}
			s = s.below(path[i], b.goName(path[i], name), "the schema "+name)
			s.name = b.defName(r, path[i], s.name)
		case key == "items":
			s = s.below(path[i], "Item", "an element")
		case key == "additionalProperties":
			s = s.below(path[i], "Value", "a value")
		case (key == "oneOf" || key == "anyOf") && i+1 < len(path):
			i++
			add := b.variantName(path[i], at)
			if add == "" {
				add = elementName(key, path[i])
			}
			s = s.below(path[i], add, "the variant "+add)
		case i+1 < len(path): // a list or map of schemas
			i++
			s = s.below(path[i], elementName(key, path[i]), "a part")
		default:
			s = s.below(path[i], GoName(key), "a part")
		}
		at = path[i]
	}
	return s, true
}

// elementName returns a name for an element in a keyword's list or map. It consists of the keyword and the element's
// number or key.
func elementName(keyword string, n *source.Node) string {
	if key, _ := n.Key(); key != "" {
		return GoName(keyword) + Suffix(key)
	}
	return GoName(keyword) + strconv.Itoa(slices.Index(n.Parent.Items, n)+1)
}

// variantName returns the suffix for the type name of an inline variant, or "" if at is not a union.
func (b *builder) variantName(variant, at *source.Node) string {
	sh := b.shape(at)
	if sh.kind != unionShape {
		return ""
	}
	for _, v := range sh.union.variants {
		if v.node == variant {
			return v.name
		}
	}
	return ""
}
