package breaking

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// locate returns the schema at a path from evolve. It follows references, allOf, anyOf and oneOf, because the path does
// not contain them. If the path does not exist, exact is false and n is the innermost existing schema.
func locate(set *schema.Set, root *source.Node, pointer string) (n *source.Node, exact bool) {
	tokens, _ := wire.SplitPointer(pointer)
	here := []*source.Node{root}
	for len(tokens) > 0 {
		n := stepLength(tokens)
		views := set.Views(here...)
		next := subschemas(views, tokens[:n]...)
		if len(next) == 0 {
			if v := schema.FindKeyword(views, tokens[0]); v != nil {
				return v.Parent, false
			}
			return here[0], false
		}
		here, tokens = next, tokens[n:]
	}
	return here[0], true
}

// stepLength returns the number of tokens that lead from a schema to its subschema: a keyword and, if its value contains
// several schemas, a name or an index.
func stepLength(tokens []string) int {
	if k, _ := schematree.Any.Keyword(tokens[0]); k.Holds == schematree.Map || k.Holds == schematree.List {
		return min(2, len(tokens))
	}
	return 1
}

// nameRange returns the range of a schema's name, or of the schema itself if it is unnamed.
func nameRange(n *source.Node) source.Range {
	_, at := n.Key()
	return at
}

// followEqual follows equal references of both versions, because the change is in their target.
func followEqual(was, is side, old, new *source.Node) (*source.Node, *source.Node) {
	for range 100 { // cycles of references are errors
		before, after := old.Get("$ref"), new.Get("$ref")
		if before == nil || after == nil || before.Text != after.Text {
			break
		}
		from, d1 := was.of.Set.Resolve(old)
		to, d2 := is.of.Set.Resolve(new)
		if d1 != nil || d2 != nil {
			break
		}
		old, new = from.Node, to.Node
	}
	return old, new
}

// subschemas returns the subschemas of the views of a value at a keyword and, if present, a name.
func subschemas(views []*source.Node, tokens ...string) []*source.Node {
	var out []*source.Node
	for _, view := range views {
		inner := view.Get(tokens[0])
		switch items := view.Get("items"); {
		case len(tokens) == 2:
			if tokens[0] == "prefixItems" && inner == nil && items != nil && items.Kind == source.Array {
				inner = items // draft-07
			}
			if inner != nil {
				inner = inner.Lookup(wire.Pointer(tokens[1]))
			}
		case tokens[0] == "items" && inner != nil && inner.Kind == source.Array:
			inner = view.Get("additionalItems")
		}
		if inner != nil && !slices.Contains(out, inner) {
			out = append(out, inner)
		}
	}
	return out
}

// summarize returns the first subject and the number of remaining subjects.
func summarize(subjects []string) string {
	subjects = slices.DeleteFunc(subjects, func(s string) bool { return s == "" })
	switch len(subjects) {
	case 0:
		return ""
	case 1:
		return subjects[0]
	case 2:
		return strings.Join(subjects, " and ")
	}
	return subjects[0] + " and " + strconv.Itoa(len(subjects)-1) + " more places"
}
