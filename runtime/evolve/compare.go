package evolve

import (
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// maxPairs bounds the pairs of variants that one comparison looks at.
const maxPairs = 10_000

// A comparison is the state of holding one schema against another.
type comparison struct {
	feature string
	// live leaves only the rules of EVOL-2.
	live bool
	// backward tells that the first schema is the new one and the second the old one.
	backward bool
	active   map[string]bool // pairs of places being compared, so that recursion ends
	budget   int
}

func (c *comparison) incomparable(path, reason string) Change {
	return Change{Feature: c.feature, Path: path, Reason: reason, Rule: Incomparable, Category: Wire}
}

// asks reports whether a rule takes part in the comparison.
func (c *comparison) asks(r rule) bool {
	if c.live && !r.Live || !r.covers(c.feature) {
		return false
	}
	return c.backward && r.backward || !c.backward && !r.onlyBackward
}

// contains reports whether the comparison asks if every value of the first schema is one of the
// second. A live change of a payload asks only what was lost.
func (c *comparison) contains() bool { return c.backward || c.feature == InputSchema }

// compare returns the changes between two places. In a recursive schema a pair that is being
// compared already is taken to be without any further ones.
func (c *comparison) compare(from, to place, path string) []Change {
	key := from.key() + "\n" + to.key()
	if c.active[key] || c.budget <= 0 {
		return nil
	}
	c.active[key] = true
	defer delete(c.active, key)

	first, ok1 := expand(from)
	second, ok2 := expand(to)
	if !ok1 || !ok2 {
		return []Change{c.incomparable(path, "a union of too many variants")}
	}
	if len(first) == 0 {
		return nil // there is no such value
	}
	u := union{old: first, new: second, feature: c.feature, live: c.live, backward: c.backward, from: from, to: to}
	if c.backward {
		u.old, u.new = second, first
	}
	var changes []Change
	for _, r := range rules {
		if r.union != nil && c.asks(r) {
			r.union(u, func(reason string) {
				changes = append(changes, Change{Feature: c.feature, Path: path, Reason: reason, Rule: r.ID, Category: r.Category})
			})
		}
	}
	changes = append(changes, c.tagged(from, to, path)...)
	if slices.ContainsFunc(changes, func(ch Change) bool { return ch.Category == Wire && ch.Rule != Incomparable }) || len(second) == 0 {
		return changes
	}
	known := tags(second)
	var strange map[string]bool
	if c.backward {
		strange = strangers(to, from)
	}
	for i, variant := range first {
		if c.backward && (known.excludes(variant) || variant.holdsAny(strange)) {
			changes = append(changes, Change{Feature: c.feature, Path: path, Reason: "the union has a new variant", Rule: variantAdded, Category: Strict})
			continue
		}
		changes = append(changes, c.fit(variant, i, second, path)...)
	}
	return changes
}

// fit returns the changes from a variant of the first schema to the one of the second that it fits
// best. A variant that fits none as a whole may do so in parts: string or null into a variant for
// each. The search begins at index, where an unchanged union has the variant itself.
func (c *comparison) fit(v place, index int, among []place, path string) []Change {
	if len(among) == 1 {
		return c.pair(v, among[0], path)
	}
	var best []Change
	found := false
	for i := range among {
		candidate := among[(index+i)%len(among)]
		if v.types()&^candidate.types() != 0 {
			continue // holds a part only
		}
		changes := c.pair(v, candidate, path)
		if len(changes) == 0 {
			return nil
		}
		if !found || lighter(changes, best) {
			best, found = changes, true
		}
	}
	if parts, byType := split(v); len(parts) > 1 {
		var changes []Change
		for _, part := range parts {
			if byType && !c.contains() && part.types()&unionTypes(among) == 0 {
				continue // a payload may lose a type
			}
			changes = append(changes, c.fit(part, 0, among, path)...)
		}
		if !found || lighter(changes, best) {
			return changes
		}
	}
	if !found {
		return c.pair(v, among[index%len(among)], path)
	}
	return best
}

// lighter reports whether a breaks less than b.
func lighter(a, b []Change) bool {
	wires := func(list []Change) (n int) {
		for _, c := range list {
			if c.Category == Wire {
				n++
			}
		}
		return n
	}
	if x, y := wires(a), wires(b); x != y {
		return x < y
	}
	return len(a) < len(b)
}

// split divides a variant by its values or else by its types.
func split(p place) (parts []place, byType bool) {
	with := func(keyword string, v any) place {
		return append(slices.Clip(p), node{pointer: keyword + "=" + text(v), schema: map[string]any{keyword: v}, doc: p.document()})
	}
	if values, limited := p.values(); limited {
		for _, t := range slices.Sorted(mapKeys(values)) {
			parts = append(parts, with("const", values[t]))
		}
		return parts, false
	}
	all := p.types()
	for _, name := range []string{"null", "boolean", "integer", "string", "array", "object"} {
		if t := typeNames[name]; t == integer && all&fraction != 0 {
			parts = append(parts, with("type", "number"))
		} else if all&t != 0 {
			parts = append(parts, with("type", name))
		}
	}
	return parts, true
}

// pair returns the changes from one variant to another, and from their parts to the parts.
func (c *comparison) pair(from, to place, path string) []Change {
	if c.budget--; c.budget <= 0 {
		return nil
	}
	p := pair{old: from, new: to, feature: c.feature, live: c.live, backward: c.backward}
	if c.backward {
		p.old, p.new = to, from
	}
	var changes []Change
	for _, r := range rules {
		if r.variant != nil && c.asks(r) {
			r.variant(p, func(below, reason string) {
				changes = append(changes, Change{Feature: c.feature, Path: path + below, Reason: reason, Rule: r.ID, Category: r.Category})
			})
		}
	}
	common := from.types() & to.types()
	if common&object != 0 {
		changes = append(changes, c.members(from, to, path)...)
	}
	if common&array != 0 {
		n := max(from.tuple(), to.tuple())
		for i := range n {
			changes = append(changes, c.compare(from.item(i), to.item(i), path+wire.Pointer("prefixItems", strconv.Itoa(i)))...)
		}
		changes = append(changes, c.compare(from.item(n), to.item(n), path+"/items")...)
	}
	return changes
}
