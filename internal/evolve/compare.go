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
	// live limits the comparison to the rules of EVOL-2.
	live bool
	// backward reports whether the first schema is the new one.
	backward bool
	budget   int
	// active holds the findings of the pairs under comparison, which stops recursion. known holds the results so far.
	// nonfinalKeys holds the keys of results that are not final. dependsOn is the depth on which the current pair
	// depends.
	active       map[string]*findings
	known        map[string]verdict
	nonfinalKeys []string
	dependsOn    int
}

func (c *comparison) incomparable(path, reason string) Change {
	return Change{Feature: c.feature, Path: path, Reason: reason, Rule: Incomparable, Category: Wire}
}

// applies reports whether the comparison uses a rule.
func (c *comparison) applies(r rule) bool {
	if c.live && !r.Live || !r.covers(c.feature) {
		return false
	}
	return c.backward && r.backward || !c.backward && !r.onlyBackward
}

// checksAcceptance reports whether the second schema must accept every value of the first. A live comparison of
// payloads checks only for lost values.
func (c *comparison) checksAcceptance() bool { return c.backward || c.feature == InputSchema }

// compare returns the changes between two places. It compares each pair once. In a recursive schema, it assumes that a
// pair under comparison has no further changes.
func (c *comparison) compare(from, to place) *findings {
	key := from.key() + "\n" + to.key()
	if v, ok := c.known[key]; ok {
		c.dependsOn = min(c.dependsOn, v.dependsOn)
		return v.found
	}
	if found, ok := c.active[key]; ok {
		c.dependsOn = min(c.dependsOn, found.depth)
		return found
	}
	if c.budget <= 0 {
		return nil
	}
	depth, outer, since := len(c.active), c.dependsOn, len(c.nonfinalKeys)
	found := newFindings()
	found.depth = depth
	c.active[key], c.dependsOn = found, finalDepth
	c.comparePlaces(from, to, found)
	delete(c.active, key)
	found.depth = -1
	c.recordVerdict(key, found, depth, since)
	c.dependsOn = min(outer, c.dependsOn)
	return found
}

func (c *comparison) comparePlaces(from, to place, found *findings) {
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
		if r.union != nil && c.applies(r) {
			r.union(u, func(reason string) {
				found.add(Change{Feature: c.feature, Reason: reason, Rule: r.ID, Category: r.Category})
			})
		}
	}
	found.addNested("", c.compareTagged(from, to))
	if found.comparableWires > 0 || len(second) == 0 {
		return
	}
	known, kept := taggingOf(second), keptTagging(first, second)
	var strange map[string]bool
	if c.backward {
		strange = unknownVariants(to, from)
	}
	for i, variant := range first {
		if c.backward && (known.excludes(variant) || variant.containsAny(strange)) {
			found.add(Change{Feature: c.feature, Reason: "the union has a new variant", Rule: variantAdded, Category: Strict})
			continue
		}
		if !c.backward && kept.excludes(variant) {
			lost := c.compare(variant.property(kept.property), objects(second)[0].property(kept.property))
			if lost.hasWireChange() { // variants with other tags may have different members with the same names
				found.addNested(wire.Pointer("properties", kept.property), lost)
				continue
			}
		}
		found.addNested("", c.bestFit(variant, i, second))
	}
}

// bestFit returns the changes from a variant of the first schema to the best matching variant of the second. If no
// variant matches as a whole, bestFit splits it, because "string or null" can match two variants. The search starts at
// index, the position of the variant in an unchanged union.
func (c *comparison) bestFit(v place, index int, among []place) *findings {
	if of := unionTypes(among); c.backward && hasSeveral(of) && v.types()&^typesKeptAsJSON(of) == 0 {
		return nil // a new variant, reported by a rule
	}
	if len(among) == 1 {
		return c.comparePair(v, among[0])
	}
	var best *findings
	for i := range among {
		candidate := among[(index+i)%len(among)]
		if v.types()&^candidate.types() != 0 {
			continue // matches only a part
		}
		found := c.comparePair(v, candidate)
		if found.isEmpty() {
			return found
		}
		if best == nil || found.isLighterThan(best) {
			best = found
		}
	}
	if parts, byType := split(v); len(parts) > 1 {
		changes := newFindings()
		for _, part := range parts {
			if byType && !c.checksAcceptance() && part.types()&unionTypes(among) == 0 {
				continue // a payload may lose a type
			}
			changes.addNested("", c.bestFit(part, 0, among))
		}
		if best == nil || changes.isLighterThan(best) {
			return changes
		}
	}
	if best == nil {
		return c.comparePair(v, among[index%len(among)])
	}
	return best
}

// split divides a variant by its listed values, or by its types if it lists none.
func split(p place) (parts []place, byType bool) {
	with := func(keyword string, v any) place {
		return append(slices.Clip(p), node{pointer: keyword + "=" + canonicalText(v), schema: map[string]any{keyword: v}, doc: p.document()})
	}
	if values, limited := p.values(); limited {
		for _, t := range sortedKeys(values) {
			parts = append(parts, with("const", values[t]))
		}
		return parts, false
	}
	all := p.types()
	for _, name := range []string{"null", "boolean", "integer", "string", "array", "object"} {
		if t := schematree.Named(name); t == schematree.Integer && all&schematree.Fraction != 0 {
			parts = append(parts, with("type", "number"))
		} else if all&t != 0 {
			parts = append(parts, with("type", name))
		}
	}
	return parts, true
}

// comparePair returns the changes between two variants, including their members and items.
func (c *comparison) comparePair(from, to place) *findings {
	found := newFindings()
	if c.budget--; c.budget <= 0 {
		return found
	}
	p := pair{old: from, new: to, feature: c.feature, backward: c.backward}
	if c.backward {
		p.old, p.new = to, from
	}
	for _, r := range rules {
		if r.variant != nil && c.applies(r) {
			r.variant(p, func(below, reason string) {
				found.add(Change{Feature: c.feature, Path: below, Reason: reason, Rule: r.ID, Category: r.Category})
			})
		}
	}
	common := from.types() & to.types()
	if common&schematree.Object != 0 {
		c.compareMembers(from, to, found)
	}
	if common&schematree.Array != 0 {
		n := max(from.tupleLen(), to.tupleLen())
		for i := range n {
			found.addNested(wire.Pointer("prefixItems", strconv.Itoa(i)), c.compare(from.item(i), to.item(i)))
		}
		found.addNested("/items", c.compare(from.item(n), to.item(n)))
	}
	return found
}
