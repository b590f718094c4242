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

// narrows reports whether n, apart from $ref and allOf, only restricts values of the given kinds without changing their
// Go type.
func narrows(n *source.Node, of kinds) bool {
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

// standIn returns the schema that alone determines the Go type of n, because the other schemas only narrow it. It is a
// schema in allOf, or n itself if n has a $ref. standIn returns nil if several schemas determine the type.
func (b *builder) standIn(n *source.Node) *source.Node {
	var candidates, rest []*source.Node
	if n.Get("$ref") != nil {
		candidates = append(candidates, n)
		if b.set.RefAlone(n) {
			return n
		}
	}
	for _, item := range itemsOf(n.Get("allOf")) {
		if item.Kind != source.Object && item.True() {
			continue
		}
		if item.Kind != source.Object {
			return nil
		}
		if item.Get("$ref") == nil && item.Get("allOf") == nil && narrows(item, anyKind) {
			continue
		}
		candidates = append(candidates, item)
	}
	rest = append(rest, n)
	// A part with only a type is a candidate only if no part has more keywords.
	if len(candidates) > 1 {
		more := slices.DeleteFunc(slices.Clone(candidates), onlyTyped)
		if len(more) == 1 {
			rest = append(rest, slices.DeleteFunc(slices.Clone(candidates), func(c *source.Node) bool { return c == more[0] })...)
			candidates = more
		}
	}
	if len(candidates) != 1 {
		return nil
	}
	of := b.allowedAlone(n, candidates[0])
	if slices.ContainsFunc(rest, func(r *source.Node) bool { return !narrows(r, of) }) {
		return nil
	}
	if c := candidates[0]; c.Get("$ref") == nil && of&kNumber == kInteger && allowsFractions(append(rest, c)...) != allowsFractions(c) {
		return nil // a type next to a list of integers affects their Go type
	}
	return candidates[0]
}

// allowedAlone returns the kinds that the stand-in of n allows, without the other schemas of n.
func (b *builder) allowedAlone(n, standIn *source.Node) kinds {
	if standIn != n {
		return b.allowed(standIn)
	}
	if t, d := b.set.Resolve(n); d == nil {
		return b.allowed(t.Node)
	}
	return anyKind
}

// onlyTyped reports whether a schema only narrows and has neither $ref nor allOf.
func onlyTyped(n *source.Node) bool {
	return n.Get("$ref") == nil && n.Get("allOf") == nil && narrows(n, 0)
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

func listed(words []string) string { return strings.Join(words, " or ") }

func membersOf(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}

func itemsOf(n *source.Node) []*source.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
