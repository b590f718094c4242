package pattern

import (
	"fmt"
	"slices"
	"strings"
)

// parseEscape parses an escape outside a class. The backslash has already been read.
func (p *parser) parseEscape() *node {
	start := p.at
	p.at++
	if !p.more() {
		p.fail(start, `the pattern ends with a lone \`)
	}
	switch r := p.peek(0); {
	case r == 'b' || r == 'B':
		p.at++
		if p.peek(0) == '{' {
			p.fail(start, `ECMA-262 knows no \b{…}`)
		}
		return &node{op: opBoundary, negated: r == 'B'}
	case r >= '1' && r <= '9':
		n, _ := p.number()
		return p.back(&node{op: opBack, group: n, at: start})
	case r == 'k' && p.peek(1) == '<':
		p.at += 2
		return p.back(&node{op: opBack, name: p.parseGroupName('>'), at: start})
	}
	if n := p.parseForeignAnchor(start); n != nil {
		return n
	}
	if s, ok := p.parseClassEscape(); ok {
		return &node{op: opSet, set: s}
	}
	r := p.parseCharacterEscape(start, false)
	return p.foldCase(&node{op: opSet, set: set{{r, r}}}, start)
}

func (p *parser) back(n *node) *node {
	p.backs = append(p.backs, n)
	return n
}

// parseClassEscape parses \d, \s, \w, \p{…} and their complements. The backslash has already been read.
func (p *parser) parseClassEscape() (set, bool) {
	r := p.peek(0)
	var s set
	switch r {
	case 'd', 'D':
		s = digits
	case 's', 'S':
		s = spaces
	case 'w', 'W':
		s = words
	case 'p', 'P':
		p.at++
		s = p.propertyEscape(p.at - 2)
		if r == 'P' {
			return s.complement(), true
		}
		return s, true
	default:
		return nil, false
	}
	p.at++
	if r < 'a' {
		return s.complement(), true
	}
	return s, true
}

// propertyEscape reads {…} of \p.
func (p *parser) propertyEscape(start int) set {
	if p.peek(0) != '{' {
		p.fail(start, `\%c needs a property in braces, as in \p{L}`, p.text[start+1])
	}
	end := slices.Index(p.text[p.at:], '}')
	if end < 0 {
		p.fail(start, `\p{ has no end`)
	}
	name := string(p.text[p.at+1 : p.at+end])
	p.at += end + 1
	s, known := propertySet(name)
	if !known {
		p.fail(start, `ECMA-262 has no property \%c{%s}`, p.text[start+1], name)
	}
	return s
}

// parseCharacterEscape parses an escape for one code point. The backslash has already been read.
func (p *parser) parseCharacterEscape(start int, inClass bool) rune {
	r := p.peek(0)
	p.at++
	switch {
	case strings.ContainsRune("fnrtv", r):
		return map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[r]
	case r == 'c' && isLetter(p.peek(0)):
		c := p.peek(0) % 32
		p.at++
		return c
	case r == '0' && !isDigit(p.peek(0)):
		return 0
	case r == 'x' && isHex(p.peek(0)) && isHex(p.peek(1)):
		return p.hex(2)
	case r == 'u':
		p.at--
		return p.parseUnicodeEscape(start)
	case strings.ContainsRune(`^$\.*+?()[]{}|/`, r), inClass && r == '-':
		return r
	}
	return p.parseForeignCharacter(start, r)
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func isHex(r rune) bool { return isDigit(r) || 'a' <= r && r <= 'f' || 'A' <= r && r <= 'F' }

// hex parses n hexadecimal digits. The caller has checked that they are present.
func (p *parser) hex(n int) rune {
	v := rune(0)
	for range n {
		d, _ := hexValue(p.peek(0))
		v = v*16 + d
		p.at++
	}
	return v
}

func hexValue(r rune) (rune, bool) {
	switch {
	case isDigit(r):
		return r - '0', true
	case 'a' <= r && r <= 'f':
		return r - 'a' + 10, true
	case 'A' <= r && r <= 'F':
		return r - 'A' + 10, true
	}
	return 0, false
}

// parseUnicodeEscape parses uXXXX, a surrogate pair in this form, or u{…}, starting at the u.
func (p *parser) parseUnicodeEscape(start int) rune {
	p.at++
	if p.take("{") {
		v, n := rune(0), 0
		for ; isHex(p.peek(0)); n++ {
			if v = v*16 + p.hex(1); v > maxRune {
				p.fail(start, `\u{…} is beyond U+10FFFF`)
			}
		}
		if n == 0 || !p.take("}") {
			p.fail(start, `\u{ needs hexadecimal digits and a closing brace`)
		}
		return v
	}
	unit := func(at int) (rune, bool) {
		v := rune(0)
		for i := range 4 {
			d, ok := hexValue(p.peek(at + i))
			if !ok {
				return 0, false
			}
			v = v*16 + d
		}
		return v, true
	}
	high, ok := unit(0)
	if !ok {
		p.fail(start, `\u needs four hexadecimal digits, or some within braces`)
	}
	p.at += 4
	if 0xD800 <= high && high < 0xDC00 && p.hasPrefix(`\u`) {
		if low, ok := unit(2); ok && 0xDC00 <= low && low < 0xE000 {
			p.at += 6
			return 0x10000 + (high-0xD800)<<10 + (low - 0xDC00)
		}
	}
	return high
}

// An element is one member of a class: a code point, or a set that cannot end a range.
type element struct {
	set   set
	point bool
	start int
}

// parseClass parses a class in brackets.
func (p *parser) parseClass() *node {
	start := p.at
	p.at++
	negated := p.take("^")
	p.rejectForeignClass(true)
	var spans []span
	for p.peek(0) != ']' {
		if !p.more() {
			p.fail(start, "the class %s is not closed", p.excerpt(start))
		}
		from := p.parseElement()
		if p.peek(0) != '-' || p.peek(1) == ']' || p.peek(1) < 0 {
			spans = append(spans, from.set...)
			p.foldElement(from, from)
			continue
		}
		dash := p.at
		p.at++
		to := p.parseElement()
		switch {
		case !from.point && to.point && to.set[0].low == '-' && p.peek(0) == '[':
			p.fail(dash, "-- takes a set away only with the v flag, and patterns have the u flag")
		case !from.point || !to.point:
			p.recordFault(dash, "a class such as %s cannot end a range", string(p.text[from.start:p.at]))
			p.change(dash, dash+1, `\-`)
			spans = append(append(append(spans, from.set...), to.set...), span{'-', '-'})
		case from.set[0].low > to.set[0].low:
			p.fail(from.start, "the range %s is upside down", string(p.text[from.start:p.at]))
		default:
			spans = append(spans, span{from.set[0].low, to.set[0].low})
			p.foldElement(from, to)
		}
	}
	p.at++
	s := union(spans)
	if negated {
		s = s.complement()
	}
	return &node{op: opSet, set: s}
}

// parseElement parses one member of a class.
func (p *parser) parseElement() element {
	start := p.at
	p.rejectForeignClass(false)
	r := p.peek(0)
	p.at++
	if r != '\\' {
		return element{set{{r, r}}, true, start}
	}
	if !p.more() {
		p.fail(start, `the pattern ends with a lone \`)
	}
	if p.take("b") {
		return element{set{{'\b', '\b'}}, true, start}
	}
	if s, ok := p.parseClassEscape(); ok {
		return element{s, false, start}
	}
	r = p.parseCharacterEscape(start, true)
	return element{set{{r, r}}, true, start}
}

// ranges formats a set as members of a class.
func (s set) ranges() string {
	var b strings.Builder
	point := func(r rune) {
		switch {
		case strings.ContainsRune(`\]^-[`, r):
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7F:
			fmt.Fprintf(&b, `\x%02X`, r)
		case r < 0x7F:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%X}`, r)
		}
	}
	for _, p := range s {
		point(p.low)
		if p.high > p.low {
			if p.high > p.low+1 {
				b.WriteByte('-')
			}
			point(p.high)
		}
	}
	return b.String()
}
