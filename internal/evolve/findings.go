package evolve

import (
	"math"
	"slices"
)

// findings is the result of comparing two places: changes at the places, and results for pairs of places below them.
// All users of a pair share its result, so each definition is compared only once. Shared findings must not be modified.
type findings struct {
	items []finding
	// wires counts the changes of category WIRE, comparableWires counts the comparable changes among them, and all
	// counts all changes.
	wires, comparableWires, all int
	// depth is the depth of a pair under comparison, or -1. includesActive reports whether items contains findings of
	// such a pair. The list of changes also includes changes that are added to such findings later.
	depth          int
	includesActive bool
}

// A finding is either a change with its path from the place, or the findings of another pair with their path.
type finding struct {
	change Change
	path   string
	of     *findings
}

// maxCount limits the counts, because they grow exponentially with shared findings.
const maxCount = math.MaxInt32

func newFindings() *findings { return &findings{depth: -1} }

func (f *findings) add(c Change) {
	f.items = append(f.items, finding{change: c})
	f.all = min(f.all+1, maxCount)
	if c.Category == Wire {
		f.wires = min(f.wires+1, maxCount)
		if c.Rule != Incomparable {
			f.comparableWires = min(f.comparableWires+1, maxCount)
		}
	}
}

// addNested adds the findings of another pair under a path.
func (f *findings) addNested(path string, of *findings) {
	if of == nil || of.isEmpty() && !of.includesActive && of.depth < 0 {
		return
	}
	f.includesActive = f.includesActive || of.includesActive || of.depth >= 0
	f.items = append(f.items, finding{path: path, of: of})
	f.all, f.wires, f.comparableWires = min(f.all+of.all, maxCount), min(f.wires+of.wires, maxCount), min(f.comparableWires+of.comparableWires, maxCount)
}

func (f *findings) isEmpty() bool { return f == nil || f.all == 0 }

// hasWireChange reports whether any change has category WIRE.
func (f *findings) hasWireChange() bool { return f != nil && f.wires > 0 }

// isLighterThan reports whether f has fewer WIRE changes than other, or the same number of WIRE changes and fewer
// changes overall.
func (f *findings) isLighterThan(other *findings) bool {
	if f.wires != other.wires {
		return f.wires < other.wires
	}
	return f.all < other.all
}

// maxPaths limits the number of paths on which a comparison repeats changes.
const maxPaths = 64

// changes returns the changes with their paths. A change occurs once for each path without a repeated pair. If there
// are more than maxPaths such paths, each change occurs only once, with one of its shortest paths.
func (f *findings) changes() []Change {
	if f.isEmpty() {
		return nil
	}
	left := maxPaths
	var out []Change
	within := map[*findings]bool{}
	var visit func(f *findings, path string)
	visit = func(f *findings, path string) {
		if within[f] || left <= 0 {
			return
		}
		left--
		within[f] = true
		for _, i := range f.items {
			if i.of != nil {
				visit(i.of, path+i.path)
				continue
			}
			i.change.Path = path + i.change.Path
			out = append(out, i.change)
		}
		delete(within, f)
	}
	if visit(f, ""); left > 0 {
		return out
	}
	type reached struct {
		of   *findings
		path string
	}
	out = nil
	queue := []reached{{f, ""}}
	seen := map[*findings]bool{f: true}
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, i := range at.of.items {
			switch {
			case i.of == nil:
				i.change.Path = at.path + i.change.Path
				out = append(out, i.change)
			case !seen[i.of]:
				seen[i.of] = true
				queue = append(queue, reached{i.of, at.path + i.path})
			}
		}
	}
	return out
}

// A verdict is the result for a pair of places. It is final unless it depends on pairs that were still under comparison
// and assumed to have no changes. dependsOn is the depth of the outermost such pair.
type verdict struct {
	found     *findings
	dependsOn int
}

// finalDepth is the depth of a verdict that does not depend on other pairs.
const finalDepth = math.MaxInt

// recordVerdict records the result of a pair compared at a depth, and finalizes the results that depend on it. If the
// pair has changes, its result is final. Without changes, the result depends on other pairs until those are final.
func (c *comparison) recordVerdict(key string, f *findings, depth, since int) {
	resting := c.nonfinalKeys[since:]
	switch {
	case !f.isEmpty():
		for _, k := range resting {
			if c.known[k].dependsOn <= depth {
				delete(c.known, k) // it assumed that the pair has no changes
			}
		}
		c.known[key] = verdict{f, finalDepth}
		c.nonfinalKeys = c.nonfinalKeys[:since]
	case c.dependsOn >= depth:
		for _, k := range resting {
			if _, ok := c.known[k]; ok {
				c.known[k] = verdict{nil, finalDepth}
			}
		}
		c.known[key] = verdict{nil, finalDepth}
		c.nonfinalKeys = c.nonfinalKeys[:since]
		c.dependsOn = finalDepth
	default:
		for _, k := range resting {
			if v, ok := c.known[k]; ok {
				c.known[k] = verdict{v.found, min(v.dependsOn, c.dependsOn)}
			}
		}
		c.known[key] = verdict{f, c.dependsOn}
		c.nonfinalKeys = append(c.nonfinalKeys, key)
	}
}

// withoutDuplicates removes duplicate changes, which the comparisons by tag and by best fit can both find.
func withoutDuplicates(changes []Change) []Change {
	seen := make(map[Change]bool, len(changes))
	return slices.DeleteFunc(changes, func(c Change) bool {
		known := seen[c]
		seen[c] = true
		return known
	})
}
