package pattern

import (
	"slices"
	"strings"
	"unicode"
)

// flags holds the flags set by (?i) and (?s).
type flags struct{ fold, dotAll bool }

// An edit replaces the text between two offsets.
type edit struct {
	from, to int
	text     string
}

// change records an edit of the pattern.
func (p *parser) change(from, to int, text string) {
	p.edits = append(p.edits, edit{from, to, text})
}

// applyEdits returns the pattern with all edits applied.
func (p *parser) applyEdits() string {
	slices.SortStableFunc(p.edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return (a.to - a.from) - (b.to - b.from)
	})
	var out strings.Builder
	at := 0
	for _, e := range p.edits {
		if e.from < at {
			continue // within an earlier replacement
		}
		out.WriteString(string(p.text[at:e.from]) + e.text)
		at = e.to
	}
	out.WriteString(string(p.text[at:]))
	return out.String()
}

// rejectLoneBracket records a fault for an unescaped brace or bracket outside a construct, which only Annex B allows.
func (p *parser) rejectLoneBracket(at int) {
	p.recordFault(at, "a lone %c must be escaped", p.text[at])
	p.change(at, at+1, `\`+string(p.text[at]))
}

// rejectUpTo rejects {,n}, because other engines read it as a quantifier and not as literal text.
func (p *parser) rejectUpTo(at int) {
	end := at + 2
	for end < len(p.text) && isDigit(p.text[end]) {
		end++
	}
	if p.peek(1) == ',' && end > at+2 && end < len(p.text) && p.text[end] == '}' {
		n := string(p.text[at+2 : end])
		p.fail(at, `{,%s} is not a quantifier: write {0,%s}, or \{,%s\} for the text`, n, n, n)
	}
}

func (p *parser) dot(at int) *node {
	if p.flags.dotAll {
		p.change(at, at+1, `[\s\S]`)
	}
	return &node{op: opSet, set: lineEnds.complement()}
}

// literal returns the node for a code point that represents itself.
func (p *parser) literal(r rune, start int) *node {
	return p.foldCase(&node{op: opSet, set: set{{r, r}}}, start)
}

// foldCase returns n and records an edit that adds the other cases of its code points if (?i) is on.
func (p *parser) foldCase(n *node, start int) *node {
	if p.flags.fold {
		if others := otherCases(n.set); len(others) > 0 {
			p.change(start, p.at, "["+union(append(others, n.set...)).ranges()+"]")
		}
	}
	return n
}

// foldElement records an edit that adds the other cases of a member of a class if (?i) is on.
func (p *parser) foldElement(from, to element) {
	if !p.flags.fold || !from.point || !to.point {
		return
	}
	s := set{{from.set[0].low, to.set[0].low}}
	if others := otherCases(s); len(others) > 0 {
		p.change(p.at, p.at, others.ranges())
	}
}

// otherCases returns the code points outside s that differ only in case from a code point in s.
func otherCases(s set) set {
	var spans []span
	for _, sp := range s {
		if sp.high-sp.low > 0x3000 {
			continue // too large a range for folding cases
		}
		for r := sp.low; r <= sp.high; r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				// The Kelvin sign is a case variant of k, and the long s is one of s. Patterns do not mean these.
				if !s.has(f) && (f < 0x80) == (r < 0x80) {
					spans = append(spans, span{f, f})
				}
			}
		}
	}
	return union(spans)
}

// parseForeignAnchor parses \A, \z and \Z. It returns nil for other escapes.
func (p *parser) parseForeignAnchor(start int) *node {
	n, form := &node{op: opEnd}, "$"
	switch r := p.peek(0); r {
	case 'A':
		n, form = &node{op: opBegin}, "^"
	case 'z', 'Z':
	default:
		return nil
	}
	p.at++
	p.recordFault(start, `ECMA-262 has no %s`, string(p.text[start:p.at]))
	p.change(start, p.at, form)
	return n
}

// parseForeignCharacter handles an escape for one code point that ECMA-262 does not allow with the u flag. The caller
// has read r.
func (p *parser) parseForeignCharacter(start int, r rune) rune {
	switch {
	case r == 'x':
		p.fail(start, `\x needs two hexadecimal digits`)
	case isDigit(r):
		p.fail(start, "ECMA-262 with the u flag has no octal escapes")
	case isLetter(r):
		p.fail(start, `ECMA-262 has no \%c`, r)
	}
	p.recordFault(start, `with the u flag %c needs no escape and takes none`, r)
	p.change(start, p.at, string(r))
	return r
}

// inlineFlags parses (?i) and (?i:…). It rejects all other groups that ECMA-262 does not have.
func (p *parser) inlineFlags() *node {
	start := p.at
	p.at += 2
	on, set := true, p.flags
	for ; p.more() && p.peek(0) != ')' && p.peek(0) != ':'; p.at++ {
		switch r := p.peek(0); r {
		case '-':
			on = false
		case 'i':
			set.fold = on
		case 's':
			set.dotAll = on
		case 'P', '\'':
			p.fail(start, "ECMA-262 names a group with (?<name>…) and refers to it with \\k<name>")
		default:
			p.fail(start, "ECMA-262 has no group that begins with %s", string(p.text[start:p.at+1]))
		}
	}
	if !p.more() {
		p.fail(start, "the group %s is not closed", p.excerpt(start))
	}
	p.at++
	head := string(p.text[start:p.at])
	p.recordFault(start, "%s sets flags within the pattern, which JavaScript engines do not know", head)
	if strings.HasSuffix(head, ")") {
		p.change(start, p.at, "")
		p.flags = set
		return nil
	}
	p.change(start, p.at, "(?:")
	outer := p.flags
	p.flags = set
	n := p.disjunction()
	p.flags = outer
	p.closes(start)
	return &node{op: opConcat, parts: []*node{n}}
}

// rejectForeignClass rejects class syntax of other engines that has a different meaning in ECMA-262. first is set at
// the start of the class.
func (p *parser) rejectForeignClass(first bool) {
	switch {
	case !p.lenient:
	case first && p.peek(0) == ']':
		p.fail(p.at, `a class that begins with ] is empty in ECMA-262; \] is a bracket`)
	case p.hasPrefix("[:"):
		p.fail(p.at, "ECMA-262 has no classes with names, such as [:alpha:]")
	case p.hasPrefix("&&["), p.hasPrefix("--["):
		p.fail(p.at, "with the u flag classes are not intersected or subtracted; a lookahead before the class does it: (?![…])[…]")
	}
}
