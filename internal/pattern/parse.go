package pattern

import (
	"fmt"
	"strings"
	"unicode"
)

// maxNesting limits the nesting of groups.
const maxNesting = 250

// A parser parses ECMA-262 with the u flag (sections 22.2.1 and 22.2.2). It also understands the syntax of other
// engines, to suggest an ECMA-262 equivalent. It records the first fault and collects changes in edits. It stops only
// at a construct without an ECMA-262 equivalent.
type parser struct {
	text   []rune
	at     int
	depth  int
	groups int
	names  map[string]int
	backs  []*node // back references, resolved once all groups are known
	fault  *SyntaxError
	edits  []edit
	stuck  bool // ECMA-262 has no form for the pattern
	flags  flags
	// lenient makes the parser continue after a fault and accept the syntax of other engines.
	lenient bool
}

// giveUp is the panic value that stops parsing at any depth. The method run recovers it.
type giveUp struct{}

func parse(text string) (*tree, error) {
	strict := newParser(text, false)
	if t := strict.run(); t != nil {
		return t, nil
	}
	p := newParser(text, true)
	p.run()
	if p.fault == nil { // another engine's meaning is not the fault
		return nil, strict.fault
	}
	if form := p.applyEdits(); !p.stuck && newParser(form, false).run() != nil {
		p.fault.Remedy = form
	}
	return nil, p.fault
}

func newParser(text string, lenient bool) *parser {
	return &parser{text: []rune(text), names: map[string]int{}, lenient: lenient}
}

// run parses the pattern. It returns nil if the pattern has a fault.
func (p *parser) run() (t *tree) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(giveUp); !ok {
				panic(r)
			}
			p.stuck, t = true, nil
		}
	}()
	t = p.pattern()
	if p.fault != nil {
		return nil
	}
	return t
}

// recordFault records a fault unless an earlier fault was recorded. A lenient parser continues.
func (p *parser) recordFault(at int, format string, args ...any) {
	if p.fault == nil {
		p.fault = &SyntaxError{Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	if !p.lenient {
		panic(giveUp{})
	}
}

// fail records a fault and stops parsing.
func (p *parser) fail(at int, format string, args ...any) {
	p.recordFault(at, format, args...)
	panic(giveUp{})
}

func (p *parser) more() bool { return p.at < len(p.text) }

// peek returns the rune n positions ahead, or -1 beyond the end.
func (p *parser) peek(n int) rune {
	if p.at+n < len(p.text) {
		return p.text[p.at+n]
	}
	return -1
}

// hasPrefix reports whether the remaining text starts with s.
func (p *parser) hasPrefix(s string) bool {
	for i, r := range []rune(s) {
		if p.peek(i) != r {
			return false
		}
	}
	return true
}

func (p *parser) take(s string) bool {
	if !p.hasPrefix(s) {
		return false
	}
	p.at += len([]rune(s))
	return true
}

func (p *parser) pattern() *tree {
	root := p.disjunction()
	if p.more() { // only an unmatched closing parenthesis stops it
		p.fail(p.at, `")" closes no group`)
	}
	for _, b := range p.backs {
		switch {
		case b.name != "":
			n, ok := p.names[b.name]
			if !ok {
				p.fail(b.at, "no group is named %q", b.name)
			}
			b.group = n
		case b.group > p.groups:
			p.fail(b.at, `\%d names a group that is not there: the pattern has %d`, b.group, p.groups)
		}
	}
	return &tree{root, p.groups}
}

func (p *parser) disjunction() *node {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.at, "the groups are nested deeper than %d levels", maxNesting)
	}
	flags := p.flags
	var branches []*node
	for {
		branches = append(branches, p.alternative())
		if !p.take("|") {
			break
		}
	}
	p.flags = flags
	p.depth--
	if len(branches) == 1 {
		return branches[0]
	}
	return &node{op: opAlternate, parts: branches}
}

func (p *parser) alternative() *node {
	var parts []*node
	for p.more() && p.peek(0) != '|' && p.peek(0) != ')' {
		if t := p.parseTerm(); t != nil {
			parts = append(parts, t)
		}
	}
	switch len(parts) {
	case 0:
		return &node{op: opEmpty}
	case 1:
		return parts[0]
	}
	return &node{op: opConcat, parts: parts}
}

// parseTerm parses an assertion, or an atom with its quantifier. It returns nil if the term does not affect matching,
// such as (?i).
func (p *parser) parseTerm() *node {
	start, first := p.at, p.groups
	n := p.parseAtom()
	if n == nil {
		return nil
	}
	at := p.at
	least, most, ok := p.parseQuantifier()
	if !ok {
		return n
	}
	if n.op == opBegin || n.op == opEnd || n.op == opBoundary || n.op == opLook {
		p.recordFault(at, "a quantifier cannot follow the assertion %s", string(p.text[start:at]))
		p.change(start, start, "(?:")
		p.change(at, at, ")")
	}
	r := &node{op: opRepeat, parts: []*node{n}, least: least, most: most, first: first + 1, last: p.groups}
	r.lazy = p.take("?")
	return r
}

// parseQuantifier parses *, +, ? and braces with numbers.
func (p *parser) parseQuantifier() (least, most int, ok bool) {
	switch {
	case p.take("*"):
		return 0, unbounded, true
	case p.take("+"):
		return 1, unbounded, true
	case p.take("?"):
		return 0, 1, true
	case p.peek(0) != '{':
		return 0, 0, false
	}
	from := p.at
	p.at++
	least, ok = p.number()
	if !ok {
		p.at = from
		return 0, 0, false
	}
	most = least
	if p.take(",") {
		if most, ok = p.number(); !ok {
			most = unbounded
		}
	}
	if !p.take("}") {
		p.at = from
		return 0, 0, false
	}
	if least > most {
		p.fail(from, "%s asks for at least %d and at most %d", string(p.text[from:p.at]), least, most)
	}
	return least, most, true
}

// number parses decimal digits. A number that does not fit into an int32 becomes unbounded.
func (p *parser) number() (int, bool) {
	n, start := 0, p.at
	for isDigit(p.peek(0)) {
		n = min(n*10+int(p.peek(0)-'0'), unbounded)
		p.at++
	}
	return n, p.at > start
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// parseAtom parses an atom or an assertion, without a quantifier.
func (p *parser) parseAtom() *node {
	start := p.at
	switch r := p.peek(0); r {
	case '^':
		p.at++
		return &node{op: opBegin}
	case '$':
		p.at++
		return &node{op: opEnd}
	case '(':
		return p.parseGroup()
	case '[':
		return p.parseClass()
	case '.':
		p.at++
		return p.dot(start)
	case '\\':
		return p.parseEscape()
	case '*', '+', '?':
		p.fail(start, "the quantifier %c has nothing to repeat", r)
	case '{':
		if _, _, ok := p.parseQuantifier(); ok {
			p.fail(start, "the quantifier %s has nothing to repeat", string(p.text[start:p.at]))
		}
		p.rejectUpTo(start)
		p.rejectLoneBracket(start)
	case ']', '}':
		p.rejectLoneBracket(start)
	}
	r := p.peek(0)
	p.at++
	return p.literal(r, start)
}

// parseGroup parses a construct that starts with a parenthesis.
func (p *parser) parseGroup() *node {
	start := p.at
	switch {
	case p.take("(?:"):
		n := p.disjunction()
		p.closes(start)
		return &node{op: opConcat, parts: []*node{n}}
	case p.take("(?="):
		return p.look(start, false, false)
	case p.take("(?!"):
		return p.look(start, true, false)
	case p.take("(?<="):
		return p.look(start, false, true)
	case p.take("(?<!"):
		return p.look(start, true, true)
	case p.take("(?<"):
		return p.capture(start, p.parseGroupName('>'))
	case p.hasPrefix("(?"):
		return p.inlineFlags()
	}
	p.at++
	return p.capture(start, "")
}

func (p *parser) capture(start int, name string) *node {
	p.groups++
	n := &node{op: opCapture, group: p.groups, name: name}
	if name != "" {
		if p.names[name] != 0 {
			p.fail(start, "two groups are named %q", name)
		}
		p.names[name] = n.group
	}
	n.parts = []*node{p.disjunction()}
	p.closes(start)
	return n
}

func (p *parser) look(start int, negated, behind bool) *node {
	n := &node{op: opLook, negated: negated, behind: behind, parts: []*node{p.disjunction()}}
	p.closes(start)
	return n
}

func (p *parser) closes(start int) {
	if !p.take(")") {
		p.fail(start, "the group %s is not closed", p.excerpt(start))
	}
}

// excerpt returns a few characters of the text from an offset, for messages.
func (p *parser) excerpt(at int) string {
	end := min(at+8, len(p.text))
	if end < len(p.text) {
		return string(p.text[at:end]) + "…"
	}
	return string(p.text[at:end])
}

// parseGroupName parses the name of a group and the delimiter at its end.
func (p *parser) parseGroupName(end rune) string {
	start := p.at
	var name strings.Builder
	for p.more() && p.peek(0) != end {
		r := p.peek(0)
		p.at++
		if r == '\\' && p.peek(0) == 'u' {
			r = p.parseUnicodeEscape(p.at - 1)
		}
		first := name.Len() == 0
		if r != '$' && r != '_' && !unicode.IsLetter(r) && !unicode.Is(unicode.Nl, r) && !unicode.Is(unicode.Other_ID_Start, r) &&
			(first || !idContinue().has(r) && r != 0x200C && r != 0x200D) {
			p.fail(start, "the name of a group cannot hold %q here", r)
		}
		name.WriteRune(r)
	}
	if !p.more() {
		p.fail(start, "the name of the group has no end")
	}
	p.at++
	if name.Len() == 0 {
		p.fail(start, "the name of the group is empty")
	}
	return name.String()
}
