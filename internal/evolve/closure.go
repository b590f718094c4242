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

// maxForms limits the number of objects in one closure. Only definitions with many references to each other exceed
// it.
const maxForms = 20_000

// closure returns a text that two schemas share if they and all their references are equal. Names of definitions, and
// whether a schema is inline or referenced, do not matter. The closure of a scalar is its JSON.
func (n node) closure() string {
	f := &forms{known: map[string]string{}, open: map[string]int{}, left: maxForms, rests: math.MaxInt}
	return f.of(n, 0)
}

// forms holds the texts of the schemas in one closure.
type forms struct {
	known map[string]string // by pointer
	open  map[string]int    // depths of the objects whose texts are under construction, by pointer
	left  int
	// rests is the least depth of an open object that the current text refers to. If that object is further out, the
	// text means something else in another place.
	rests int
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
			f.rests = min(f.rests, at)
			return fmt.Sprintf("(%d up)", depth-at)
		}
		if text, ok := f.known[n.pointer]; ok {
			return text
		}
		if f.left--; f.left < 0 {
			return fmt.Sprintf("(%s of %p)", n.pointer, n.doc) // a unique text
		}
		outer := f.rests
		f.open[n.pointer], f.rests = depth, math.MaxInt
		text := f.object(n, v, depth)
		delete(f.open, n.pointer)
		if f.rests >= depth {
			f.known[n.pointer], f.rests = text, math.MaxInt
		}
		f.rests = min(f.rests, outer)
		return text
	}
	return text(n.schema)
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
		if !annotates(key) {
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
		for _, name := range slices.Sorted(mapKeys(members)) {
			list.WriteString(strconv.Quote(name) + ":" + f.child(n, depth, key, name) + ",")
		}
		return "{" + list.String() + "}"
	case k.Refers:
		if target, ok := (resolver{}).Target(n, key); ok {
			return f.of(target, depth+1)
		}
		return text(v)
	case k.Holds == schematree.Nothing:
		return text(v)
	}
	return f.child(n, depth, key)
}
