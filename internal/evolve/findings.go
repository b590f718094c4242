package evolve

import (
	"math"
	"slices"
)

// findings are what comparing two places found: changes at the places themselves, and what was found at pairs of
// places that they lead to. Those are shared between all that lead there, so that a definition is compared once.
// Nobody changes findings that somebody else holds.
type findings struct {
	items []finding
	// wires, firm and all count the changes: those of category WIRE, those of them that could be compared, and all.
	wires, firm, all int
	// depth is that of a pair that is being compared, -1 of any other. leads tells that findings of such a pair are
	// among the items: what more is found of it counts here too, when the changes are listed.
	depth int
	leads bool
}

// A finding is a change, with its path from the place, or the findings of another pair and the path that leads there.
type finding struct {
	change Change
	path   string
	of     *findings
}

// maxCount bounds the counts: findings that share others may count more changes than there are atoms.
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

// put adds what was found at the end of a path.
func (f *findings) put(path string, of *findings) {
	if of == nil || of.none() && !of.leads && of.depth < 0 {
		return
	}
	f.leads = f.leads || of.leads || of.depth >= 0
	f.items = append(f.items, finding{path: path, of: of})
	f.all, f.wires, f.firm = min(f.all+of.all, maxCount), min(f.wires+of.wires, maxCount), min(f.firm+of.firm, maxCount)
}

func (f *findings) none() bool { return f == nil || f.all == 0 }

// breaks reports whether one of the changes is of category WIRE.
func (f *findings) breaks() bool { return f != nil && f.wires > 0 }

// lighter reports whether f breaks less than other.
func (f *findings) lighter(other *findings) bool {
	if f.wires != other.wires {
		return f.wires < other.wires
	}
	return f.all < other.all
}

// maxPaths bounds the paths on which one comparison reports changes again.
const maxPaths = 64

// changes are the changes with their paths: on each path that does not come by one pair twice, or, where there are
// very many of those, on one of the shortest.
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

// A verdict is what is known of a pair of places. It is final, unless it rests on pairs that were still being
// compared and taken to be without changes: the outermost of those is at the depth.
type verdict struct {
	found *findings
	rests int
}

// final is the depth of a verdict that rests on nothing.
const final = math.MaxInt

// settle keeps the verdict about a pair that was compared at a depth, and settles those that rested on it. A pair
// with changes has them whatever else is found; one that is without rests on others until they are.
func (c *comparison) settle(key string, f *findings, depth, since int) {
	resting := c.resting[since:]
	switch {
	case !f.none():
		for _, k := range resting {
			if c.known[k].rests <= depth {
				delete(c.known, k) // it took the pair to be without changes
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

// once leaves out what was found twice: by tag and by fit.
func once(changes []Change) []Change {
	seen := make(map[Change]bool, len(changes))
	return slices.DeleteFunc(changes, func(c Change) bool {
		known := seen[c]
		seen[c] = true
		return known
	})
}
