package evolve

import (
	"math"
	"slices"
)

// findings holds the result of comparing two places: changes at the places, and results for pairs of places below
// them. All users of a pair share its result, so that a definition is compared once. Shared findings must not be
// modified.
type findings struct {
	items []finding
	// wires, firm and all count the changes: those of category WIRE, the comparable ones among them, and all.
	wires, firm, all int
	// depth is the depth of a pair under comparison, and -1 otherwise. leads reports whether items contain findings of
	// such a pair. Changes added to these later also count here when the changes are listed.
	depth int
	leads bool
}

// A finding is a change with its path from the place, or the path to another pair with its findings.
type finding struct {
	change Change
	path   string
	of     *findings
}

// maxCount limits the counts, because shared findings may contribute more changes than there are atoms.
const maxCount = math.MaxInt32

func newFindings() *findings { return &findings{depth: -1} }

func (f *findings) add(c Change) {
	f.items = append(f.items, finding{change: c})
	f.all = min(f.all+1, maxCount)
	if c.Category == Wire {
		f.wires = min(f.wires+1, maxCount)
		if c.Rule != Incomparable {
			f.firm = min(f.firm+1, maxCount)
		}
	}
}

// put adds findings at the end of a path.
func (f *findings) put(path string, of *findings) {
	if of == nil || of.none() && !of.leads && of.depth < 0 {
		return
	}
	f.leads = f.leads || of.leads || of.depth >= 0
	f.items = append(f.items, finding{path: path, of: of})
	f.all, f.wires, f.firm = min(f.all+of.all, maxCount), min(f.wires+of.wires, maxCount), min(f.firm+of.firm, maxCount)
}

func (f *findings) none() bool { return f == nil || f.all == 0 }

// breaks reports whether any change has category WIRE.
func (f *findings) breaks() bool { return f != nil && f.wires > 0 }

// lighter reports whether f breaks less than other.
func (f *findings) lighter(other *findings) bool {
	if f.wires != other.wires {
		return f.wires < other.wires
	}
	return f.all < other.all
}

// maxPaths limits the number of paths on which a comparison repeats changes.
const maxPaths = 64

// changes returns the changes with their paths: one for each path without a repeated pair, or one of the shortest
// paths if there are very many.
func (f *findings) changes() []Change {
	if f.none() {
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

// A verdict is the result for a pair of places. It is final unless it depends on pairs that were still under
// comparison and assumed to have no changes; the outermost of them is at the depth.
type verdict struct {
	found *findings
	rests int
}

// final is the depth of a verdict that depends on no other pair.
const final = math.MaxInt

// settle records the result of a pair compared at a depth, and finishes the results that depend on it. A pair with
// changes keeps them whatever follows. A pair without changes depends on other pairs until they are finished.
func (c *comparison) settle(key string, f *findings, depth, since int) {
	resting := c.resting[since:]
	switch {
	case !f.none():
		for _, k := range resting {
			if c.known[k].rests <= depth {
				delete(c.known, k) // it assumed that the pair has no changes
			}
		}
		c.known[key] = verdict{f, final}
		c.resting = c.resting[:since]
	case c.rests >= depth:
		for _, k := range resting {
			if _, ok := c.known[k]; ok {
				c.known[k] = verdict{nil, final}
			}
		}
		c.known[key] = verdict{nil, final}
		c.resting = c.resting[:since]
		c.rests = final
	default:
		for _, k := range resting {
			if v, ok := c.known[k]; ok {
				c.known[k] = verdict{v.found, min(v.rests, c.rests)}
			}
		}
		c.known[key] = verdict{f, c.rests}
		c.resting = append(c.resting, key)
	}
}

// once removes changes found twice: by tag and by fit.
func once(changes []Change) []Change {
	seen := make(map[Change]bool, len(changes))
	return slices.DeleteFunc(changes, func(c Change) bool {
		known := seen[c]
		seen[c] = true
		return known
	})
}
