package pattern

import (
	"slices"
	"unicode"
)

// A set is a set of code points. It consists of sorted, disjoint ranges with inclusive bounds.
type set []span

type span struct{ low, high rune }

const maxRune = unicode.MaxRune

// union returns the set of the code points of all spans.
func union(spans []span) set {
	all := slices.Clone(spans)
	slices.SortFunc(all, func(a, b span) int { return int(a.low - b.low) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && s.low <= out[n-1].high+1 {
			out[n-1].high = max(out[n-1].high, s.high)
			continue
		}
		out = append(out, s)
	}
	return out
}

// complement returns the code points that are not in s.
func (s set) complement() set {
	var out set
	next := rune(0)
	for _, p := range s {
		if p.low > next {
			out = append(out, span{next, p.low - 1})
		}
		next = p.high + 1
	}
	if next <= maxRune {
		out = append(out, span{next, maxRune})
	}
	return out
}

// subtract returns the set of the code points of s that are not in the other set.
func (s set) subtract(other set) set {
	return union(append(slices.Clone(s.complement()), other...)).complement()
}

func (s set) has(r rune) bool {
	if len(s) <= 4 {
		for _, p := range s {
			if p.low <= r && r <= p.high {
				return true
			}
		}
		return false
	}
	i, found := slices.BinarySearchFunc(s, r, func(p span, r rune) int {
		switch {
		case p.high < r:
			return -1
		case p.low > r:
			return 1
		}
		return 0
	})
	return found && i < len(s)
}

// newTableSet returns the set of the code points in tables from package unicode.
func newTableSet(tables ...*unicode.RangeTable) set {
	var all []span
	add := func(low, high, stride rune) {
		if stride == 1 {
			all = append(all, span{low, high})
			return
		}
		for r := low; r <= high; r += stride {
			all = append(all, span{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return union(all)
}

// The classes of ECMA-262. Without the i flag, \w matches only ASCII characters, even with the u flag.
var (
	digits = set{{'0', '9'}}
	words  = set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	// spaces holds WhiteSpace and LineTerminator. Unlike Go's \s, it includes the vertical tab, the no-break space,
	// U+FEFF and all of category Zs.
	spaces = union(append(slices.Clone(newTableSet(unicode.Zs)), span{'\t', '\r'}, span{0x2028, 0x2029}, span{0xFEFF, 0xFEFF}))
	// lineEnds holds the code points that the dot does not match.
	lineEnds = set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}
	anything = set{{0, maxRune}}
)
