package evolve

import (
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// maxPairs bounds the pairs of variants that one comparison looks at.
const maxPairs = 10_000

// A comparison is the state of comparing one schema with another.
type comparison struct {
	feature  string
	rules    []rule
	old, new *document
	active   map[string]bool // pairs of places being compared, so that recursion ends
	budget   int
}

func (c *comparison) incomparable(path, reason string) Change {
	return Change{Feature: c.feature, Path: path, Reason: reason, Rule: incomparable, Category: Wire}
}

// compare returns the changes between two places. In a recursive schema a pair that is being
// compared already is taken to be without any further ones.
func (c *comparison) compare(old, new place, path string) []Change {
	key := old.key() + "\n" + new.key()
	if c.active[key] || c.budget <= 0 {
		return nil
	}
	c.active[key] = true
	defer delete(c.active, key)

	before, ok1 := c.old.expand(old)
	after, ok2 := c.new.expand(new)
	if !ok1 || !ok2 {
		return []Change{c.incomparable(path, "a union of too many variants")}
	}
	if len(before) == 0 {
		return nil // there was no such value
	}
	var changes []Change
	report := func(r Rule, path, reason string) {
		changes = append(changes, Change{Feature: c.feature, Path: path, Reason: reason, Rule: r.ID, Category: r.Category})
	}
	for _, r := range c.rules {
		if r.union != nil && r.covers(c.feature) {
			r.union(union{before, after}, func(reason string) { report(r.Rule, path, reason) })
		}
	}
	if len(changes) > 0 || len(after) == 0 {
		return changes
	}
	for i, variant := range before {
		changes = append(changes, c.fit(variant, i, after, path)...)
	}
	return changes
}

// fit returns the changes from an old variant to the new one that it fits best. A variant that fits
// none as a whole may do so in parts: string or null into a variant for each. The search begins at
// index, where an unchanged union has the variant itself.
func (c *comparison) fit(old place, index int, after []place, path string) []Change {
	var best []Change
	for i := range after {
		changes := c.pair(old, after[(index+i)%len(after)], path)
		if len(changes) == 0 {
			return nil
		}
		if i == 0 || len(changes) < len(best) {
			best = changes
		}
	}
	if parts := split(old); len(after) > 1 && len(parts) > 1 {
		var changes []Change
		for _, part := range parts {
			changes = append(changes, c.fit(part, 0, after, path)...)
		}
		if len(changes) < len(best) {
			return changes
		}
	}
	return best
}

// split divides a variant by its values or else by its types.
func split(p place) []place {
	with := func(keyword string, v any) place {
		return append(slices.Clip(p), node{pointer: keyword + "=" + text(v), schema: map[string]any{keyword: v}})
	}
	var out []place
	if values, limited := p.values(); limited {
		if len(values) > 1 {
			for _, t := range slices.Sorted(mapKeys(values)) {
				out = append(out, with("const", values[t]))
			}
		}
		return out
	}
	all := p.types()
	if all == anyType {
		return nil
	}
	for _, name := range []string{"null", "boolean", "integer", "string", "array", "object"} {
		if t := typeNames[name]; t == integer && all&fraction != 0 {
			out = append(out, with("type", "number"))
		} else if all&t != 0 {
			out = append(out, with("type", name))
		}
	}
	return out
}

// pair returns the changes from one variant to another, and from their parts to the parts.
func (c *comparison) pair(old, new place, path string) []Change {
	if c.budget--; c.budget <= 0 {
		return nil
	}
	var changes []Change
	for _, r := range c.rules {
		if r.variant == nil || !r.covers(c.feature) {
			continue
		}
		r.variant(pair{old, new}, func(below, reason string) {
			changes = append(changes, Change{Feature: c.feature, Path: path + below, Reason: reason, Rule: r.ID, Category: r.Category})
		})
	}
	common := old.types() & new.types()
	if common&object != 0 {
		changes = append(changes, c.members(old, new, path)...)
	}
	if common&array != 0 {
		n := max(old.tuple(), new.tuple())
		for i := range n {
			changes = append(changes, c.compare(old.item(i), new.item(i), path+wire.Pointer("prefixItems", strconv.Itoa(i)))...)
		}
		changes = append(changes, c.compare(old.item(n), new.item(n), path+"/items")...)
	}
	return changes
}

func (c *comparison) members(old, new place, path string) []Change {
	var changes []Change
	kept := new.properties()
	for _, name := range old.properties() {
		if slices.Contains(kept, name) {
			changes = append(changes, c.compare(old.property(name), new.property(name), path+wire.Pointer("properties", name))...)
		}
	}
	patterns := map[string]bool{}
	for _, n := range slices.Concat(old, new) {
		for _, pattern := range n.names("patternProperties") {
			patterns[pattern] = true
		}
	}
	for _, pattern := range slices.Sorted(mapKeys(patterns)) {
		before, _ := old.pattern(pattern)
		after, _ := new.pattern(pattern)
		changes = append(changes, c.compare(before, after, path+wire.Pointer("patternProperties", pattern))...)
	}
	// Closing is a rule of its own; what opens is never a change.
	if !old.closed() && !new.closed() && (len(old.additional()) > 0 || c.feature == InputSchema) {
		changes = append(changes, c.compare(old.additional(), new.additional(), path+"/additionalProperties")...)
	}
	return changes
}
