package evolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// The rules here concern lost values in either schema.

func unionTypes(variants []place) schematree.Types {
	var t schematree.Types
	for _, v := range variants {
		t |= v.types()
	}
	return t
}

func valueForbidden(u union, report func(string)) {
	if len(u.new) == 0 {
		report("no value is valid here any more")
	}
}

// typeRemoved calls report if the old and the new variant have no type in common. It ignores the removal of null from a
// payload, because receivers then only see fewer values.
func typeRemoved(p pair, report func(string, string)) {
	harmless := p.feature == PayloadSchema && p.old.types() == schematree.Null
	if p.old.types()&p.new.types() == 0 && !harmless {
		report("", fmt.Sprintf("was %v and is %v", p.old.types(), p.new.types()))
	}
}

func fieldRemoved(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.Object == 0 {
		return
	}
	kept := p.new.properties()
	for _, name := range p.old.properties() {
		if !slices.Contains(kept, name) {
			report(wire.Pointer("properties", name), "field removed or renamed")
		}
	}
	if p.old.isMap() && p.new.isClosed() {
		report("/additionalProperties", "members of any name removed")
	}
}

func enumNarrowed(p pair, report func(string, string)) {
	old, ok1 := listedValues(p.old)
	new, ok2 := p.new.values()
	if !ok1 || !ok2 {
		return
	}
	if lost := difference(old, new); len(lost) > 0 {
		report("", "no longer has "+strings.Join(lost, ", "))
	}
}

// difference returns the values of a that are not in b, formatted for messages.
func difference(a, b map[string]any) []string {
	var out []string
	for t, v := range a {
		if _, ok := b[t]; !ok {
			out = append(out, formatValue(v))
		}
	}
	slices.Sort(out)
	return out
}

// listedValues returns the values of a place if their number is finite.
func listedValues(p place) (map[string]any, bool) {
	t := p.types()
	if values, ok := p.values(); ok {
		out := make(map[string]any, len(values))
		for text, v := range values {
			if schematree.TypeOf(v)&t != 0 {
				out[text] = v
			}
		}
		return out, true
	}
	if t&^(schematree.Null|schematree.Boolean) != 0 {
		return nil, false
	}
	var all []any
	if t&schematree.Null != 0 {
		all = append(all, nil)
	}
	if t&schematree.Boolean != 0 {
		all = append(all, false, true)
	}
	return intersect(nil, all), true
}

func formatValue(v any) string {
	s := fmt.Sprint(v)
	if t, ok := v.(string); ok {
		s = fmt.Sprintf("%q", t)
	} else if v == nil {
		s = "null"
	}
	if cut := []rune(s); len(cut) > 80 {
		s = string(cut[:80]) + "…"
	}
	return s
}
