package ir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// isAnnotation reports whether a keyword affects neither validity nor types.
func isAnnotation(keyword string) bool {
	k, _ := schematree.Any.Keyword(keyword)
	return k.Role == schematree.Annotates || k.Role == schematree.Identifies || keyword == "nullable"
}

// onlyNarrows reports whether n restricts values of the given kinds without changing their Go type. It ignores $ref and
// allOf.
func onlyNarrows(n *source.Node, of schematree.Types) bool {
	for _, m := range n.Members {
		k, known := schematree.Any.Keyword(m.Key)
		switch {
		case k.Role != schematree.Describes || !known || m.Key == "$ref" || m.Key == "allOf":
		case m.Key == "type" && of&^declaredKinds(n) == 0:
		case m.Key == "unevaluatedProperties" && m.Value.Kind == source.Bool && !m.Value.True():
		default:
			return false
		}
	}
	return true
}

// standIn returns the schema that determines the Go type of n if all other schemas only restrict the values. It is a
// schema in allOf, or n itself if n has a $ref. standIn returns nil if several schemas determine the type.
func (b *builder) standIn(n *source.Node) *source.Node {
	var candidates, rest []*source.Node
	if n.Get("$ref") != nil {
		candidates = append(candidates, n)
		if b.set.RefAlone(n) {
			return n
		}
	}
	for _, item := range n.ItemsAt("allOf") {
		if item.Kind != source.Object && item.True() {
			continue
		}
		if item.Kind != source.Object {
			return nil
		}
		if item.Get("$ref") == nil && item.Get("allOf") == nil && onlyNarrows(item, schematree.AnyType) {
			continue
		}
		candidates = append(candidates, item)
	}
	rest = append(rest, n)
	// A part with only a type is a candidate only if no part has more keywords.
	if len(candidates) > 1 {
		more := slices.DeleteFunc(slices.Clone(candidates), hasOnlyType)
		if len(more) == 1 {
			rest = append(rest, slices.DeleteFunc(slices.Clone(candidates), func(c *source.Node) bool { return c == more[0] })...)
			candidates = more
		}
	}
	if len(candidates) != 1 {
		return nil
	}
	of := b.allowedAlone(n, candidates[0])
	if slices.ContainsFunc(rest, func(r *source.Node) bool { return !onlyNarrows(r, of) }) {
		return nil
	}
	if c := candidates[0]; c.Get("$ref") == nil && of&schematree.Number == schematree.Integer && allowsFractions(append(rest, c)...) != allowsFractions(c) {
		return nil // a type next to a list of integers affects their Go type
	}
	return candidates[0]
}

// allowedAlone returns the kinds that standIn allows, regardless of the other schemas of n.
func (b *builder) allowedAlone(n, standIn *source.Node) schematree.Types {
	if standIn != n {
		return b.allowedKinds(standIn)
	}
	if t, d := b.set.Resolve(n); d == nil {
		return b.allowedKinds(t.Node)
	}
	return schematree.AnyType
}

// hasOnlyType reports whether type is the only keyword of a schema that affects the Go type.
func hasOnlyType(n *source.Node) bool {
	return n.Get("$ref") == nil && n.Get("allOf") == nil && onlyNarrows(n, 0)
}

// isNull reports whether a schema allows only null.
func isNull(n *source.Node) bool {
	if n.Kind != source.Object {
		return false
	}
	if t := n.Get("type"); t != nil {
		return t.Kind == source.String && t.Text == "null"
	}
	if c := n.Get("const"); c != nil {
		return c.Kind == source.Null
	}
	e := n.Get("enum")
	return e != nil && len(e.Items) == 1 && e.Items[0].Kind == source.Null
}

func identity(nodes []*source.Node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%p ", n)
	}
	return b.String()
}
