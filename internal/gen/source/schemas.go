package source

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// CopySchemas copies v, the value of a JSON Schema keyword, and replaces each schema in it with the result of f. It
// returns v itself if the keyword does not contain schemas.
func CopySchemas(k schematree.Keyword, v *Node, f func(*Node) *Node) *Node {
	out := &Node{Kind: v.Kind, Range: v.Range, Items: slices.Clone(v.Items), Members: slices.Clone(v.Members)}
	switch {
	case v.Kind == Array && (k.Holds == schematree.List || k.Holds == schematree.SchemaOrList):
		for i, inner := range v.Items {
			out.Items[i] = f(inner)
		}
		return out
	case k.Holds == schematree.Schema || k.Holds == schematree.SchemaOrList:
		return f(v)
	case v.Kind == Object && (k.Holds == schematree.Map || k.Holds == schematree.SchemasOrNames):
		for i, m := range v.Members {
			if m.Value.Kind != Array {
				out.Members[i].Value = f(m.Value)
			}
		}
		return out
	}
	return v
}
