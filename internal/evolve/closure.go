package evolve

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// maxForms limits the number of objects in one closure. Only definitions with many mutual references exceed it.
const maxForms = 20_000

// closure returns the canonical text of a schema, in which definitions replace references. Two schemas have the same
// text if the schemas and the targets of all their references are equal. It does not depend on the names of
// definitions, or on whether a schema is inline or referenced. The closure of a scalar is its JSON.
func (n node) closure() string {
	f := &forms{known: map[string]string{}, open: map[string]int{}, left: maxForms, dependsOn: math.MaxInt}
	return f.of(n, 0)
}

// forms holds the texts of the schemas in one closure.
type forms struct {
	known map[string]string // by pointer
	open  map[string]int    // depths of the objects whose texts are under construction, by pointer
	left  int
	// dependsOn is the smallest depth of an open object that the current text refers to. A text that refers to an
	// enclosing object cannot be reused elsewhere.
	dependsOn int
}

func (f *forms) of(n node, depth int) string {
	switch v := n.schema.(type) {
	case []any:
		var list strings.Builder
		for i := range v {
			list.WriteString(f.child(n, depth, strconv.Itoa(i)) + ",")
		}
		return "[" + list.String() + "]"
	case map[string]any:
		if at, isOpen := f.open[n.pointer]; isOpen {
			f.dependsOn = min(f.dependsOn, at)
			return fmt.Sprintf("(%d up)", depth-at)
		}
		if text, ok := f.known[n.pointer]; ok {
			return text
		}
		if f.left--; f.left < 0 {
			return fmt.Sprintf("(%s of %p)", n.pointer, n.doc) // a unique text
		}
		outer := f.dependsOn
		f.open[n.pointer], f.dependsOn = depth, math.MaxInt
		text := f.object(n, v, depth)
		delete(f.open, n.pointer)
		if f.dependsOn >= depth {
			f.known[n.pointer], f.dependsOn = text, math.MaxInt
		}
		f.dependsOn = min(f.dependsOn, outer)
		return text
	}
	return canonicalText(n.schema)
}

func (f *forms) child(n node, depth int, tokens ...string) string {
	c, ok := n.child(tokens...)
	if !ok {
		return "null"
	}
	return f.of(c, depth+len(tokens))
}

func (f *forms) object(n node, v map[string]any, depth int) string {
	keys := make([]string, 0, len(v))
	for key := range v {
		if !isAnnotation(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if ref, ok := v["$ref"].(string); ok && (len(keys) == 1 || n.doc != nil && n.doc.draft07) {
		if target, ok := n.resolve(ref); ok {
			return f.of(target, depth)
		}
	}
	var out strings.Builder
	for _, key := range keys {
		out.WriteString(strconv.Quote(key) + ":" + f.member(n, key, v[key], depth) + ",")
	}
	sum := sha256.Sum256([]byte(out.String()))
	return fmt.Sprintf("{%x}", sum)
}

func (f *forms) member(n node, key string, v any, depth int) string {
	members, isMap := v.(map[string]any)
	k, _ := schematree.Any.Keyword(key)
	switch {
	case isMap && (k.Holds == schematree.Map || k.Holds == schematree.SchemasOrNames):
		var list strings.Builder
		for _, name := range sortedKeys(members) {
			list.WriteString(strconv.Quote(name) + ":" + f.child(n, depth, key, name) + ",")
		}
		return "{" + list.String() + "}"
	case k.Refers:
		if target, ok := (resolver{}).Target(n, key); ok {
			return f.of(target, depth+1)
		}
		return canonicalText(v)
	case k.Holds == schematree.Nothing:
		return canonicalText(v)
	}
	return f.child(n, depth, key)
}
