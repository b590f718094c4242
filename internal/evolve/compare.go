package evolve

import (
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxPairs limits the pairs of variants that one comparison visits, in addition to pairsPerSchema for each schema in
// the two documents.
const (
	maxPairs       = 10_000
	pairsPerSchema = 40
)

// A comparison is the state of comparing one schema with another.
type comparison struct {
	feature string
	// live selects only the rules of EVOL-2.
	live bool
	// backward reports whether the first schema is the new one.
	backward bool
	budget   int
	// active holds the findings of the pairs under comparison, which ends recursion. known holds the results so far,
	// and resting the keys of results that are not final. rests is the depth on which the current pair depends.
	active  map[string]*findings
	known   map[string]verdict
	resting []string
	rests   int
}

func (c *comparison) incomparable(path, reason string) Change {
	return Change{Feature: c.feature, Path: path, Reason: reason, Rule: Incomparable, Category: Wire}
}

// asks reports whether a rule applies in the comparison.
func (c *comparison) asks(r rule) bool {
	if c.live && !r.Live || !r.covers(c.feature) {
		return false
	}
	return c.backward && r.backward || !c.backward && !r.onlyBackward
}

// contains reports whether the comparison checks that the second schema accepts every value of the first. A live
// comparison of payloads checks only for lost values.
func (c *comparison) contains() bool { return c.backward || c.feature == InputSchema }

// compare returns the changes between two places. It compares each pair once. In a recursive schema it assumes that a
// pair under comparison has no further changes.
func (c *comparison) compare(from, to place) *findings {
	key := from.key() + "\n" + to.key()
	if v, ok := c.known[key]; ok {
		c.rests = min(c.rests, v.rests)
		return v.found
	}
	if found, ok := c.active[key]; ok {
		c.rests = min(c.rests, found.depth)
		return found
	}
	if c.budget <= 0 {
		return nil
	}
	depth, outer, since := len(c.active), c.rests, len(c.resting)
	found := newFindings()
	found.depth = depth
	c.active[key], c.rests = found, final
	c.places(from, to, found)
	delete(c.active, key)
	found.depth = -1
	c.settle(key, found, depth, since)
	c.rests = min(outer, c.rests)
	return found
}

func (c *comparison) places(from, to place, found *findings) {
	first, ok1 := expand(from)
	second, ok2 := expand(to)
	if !ok1 || !ok2 {
		found.add(c.incomparable("", "a union of too many variants"))
		return
	}
	if len(first) == 0 {
		return // no such value exists
	}
	u := union{old: first, new: second, feature: c.feature, live: c.live, backward: c.backward, from: from, to: to}
	if c.backward {
		u.old, u.new = second, first
	}
	for _, r := range rules {
		if r.union != nil && c.asks(r) {
			r.union(u, func(reason string) {
				found.add(Change{Feature: c.feature, Reason: reason, Rule: r.ID, Category: r.Category})
			})
		}
	}
	found.put("", c.tagged(from, to))
	if found.firm > 0 || len(second) == 0 {
		return
	}
	known, kept := tags(second), keptTags(first, second)
	var strange map[string]bool
	if c.backward {
		strange = strangers(to, from)
	}
	for i, variant := range first {
		if c.backward && (known.excludes(variant) || variant.holdsAny(strange)) {
			found.add(Change{Feature: c.feature, Reason: "the union has a new variant", Rule: variantAdded, Category: Strict})
			continue
		}
		if !c.backward && kept.excludes(variant) {
			lost := c.compare(variant.property(kept.property), objects(second)[0].property(kept.property))
			if lost.breaks() { // variants with other tags may have different members with the same names
				found.put(wire.Pointer("properties", kept.property), lost)
				continue
			}
		}
		found.put("", c.fit(variant, i, second))
	}
}

// fit returns the changes from a variant of the first schema to the variant of the second that suits it best. If a
// variant does not fit as a whole, its parts may: string or null fits two variants. The search starts at index, which
// is the variant itself in an unchanged union.
func (c *comparison) fit(v place, index int, among []place) *findings {
	if of := unionTypes(among); c.backward && of.several() && v.types()&^strange(of) == 0 {
		return nil // a new variant, reported by a rule
	}
	if len(among) == 1 {
		return c.pair(v, among[0])
	}
	var best *findings
	for i := range among {
		candidate := among[(index+i)%len(among)]
		if v.types()&^candidate.types() != 0 {
			continue // matches only a part
		}
		found := c.pair(v, candidate)
		if found.none() {
			return found
		}
		if best == nil || found.lighter(best) {
			best = found
		}
	}
	if parts, byType := split(v); len(parts) > 1 {
		changes := newFindings()
		for _, part := range parts {
			if byType && !c.contains() && part.types()&unionTypes(among) == 0 {
				continue // a payload may lose a type
			}
			changes.put("", c.fit(part, 0, among))
		}
		if best == nil || changes.lighter(best) {
			return changes
		}
	}
	if best == nil {
		return c.pair(v, among[index%len(among)])
	}
	return best
}

// split divides a variant by its values, or otherwise by its types.
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
		if t := types(schematree.Named(name)); t == integer && all&fraction != 0 {
			parts = append(parts, with("type", "number"))
		} else if all&t != 0 {
			parts = append(parts, with("type", name))
		}
	}
	return parts, true
}

// pair returns the changes between two variants and between their parts.
func (c *comparison) pair(from, to place) *findings {
	found := newFindings()
	if c.budget--; c.budget <= 0 {
		return found
	}
	p := pair{old: from, new: to, feature: c.feature, live: c.live, backward: c.backward}
	if c.backward {
		p.old, p.new = to, from
	}
	for _, r := range rules {
		if r.variant != nil && c.asks(r) {
			r.variant(p, func(below, reason string) {
				found.add(Change{Feature: c.feature, Path: below, Reason: reason, Rule: r.ID, Category: r.Category})
			})
		}
	}
	common := from.types() & to.types()
	if common&object != 0 {
		c.members(from, to, found)
	}
	if common&array != 0 {
		n := max(from.tuple(), to.tuple())
		for i := range n {
			found.put(wire.Pointer("prefixItems", strconv.Itoa(i)), c.compare(from.item(i), to.item(i)))
		}
		found.put("/items", c.compare(from.item(n), to.item(n)))
	}
	return found
}
