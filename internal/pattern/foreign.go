package pattern

import (
	"slices"
	"strings"
	"unicode"
)

// flags are what other engines let a pattern say about itself, as in (?i).
type flags struct{ fold, dotAll, multiline bool }

// An edit replaces what stands between two places.
type edit struct {
	from, to int
	text     string
}

// change notes what has to be written in the place of a part of the pattern.
func (p *parser) change(from, to int, text string) {
	p.edits = append(p.edits, edit{from, to, text})
}

// edited is the pattern with all changes.
func (p *parser) edited() string {
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
			continue // within what was replaced as a whole
		}
		out.WriteString(string(p.text[at:e.from]) + e.text)
		at = e.to
	}
	out.WriteString(string(p.text[at:]))
	return out.String()
}

// lone reads a brace or bracket that only Annex B lets stand for itself.
func (p *parser) lone(at int) {
	p.blame(at, "a lone %c must be escaped", p.text[at])
	p.change(at, at+1, `\`+string(p.text[at]))
}

// upTo refuses {,n}, a quantifier of other engines: what it would be as text cannot be told from it.
func (p *parser) upTo(at int) {
	end := at + 2
	for end < len(p.text) && isDigit(p.text[end]) {
		end++
	}
	if p.next(1) == ',' && end > at+2 && end < len(p.text) && p.text[end] == '}' {
		n := string(p.text[at+2 : end])
		p.fail(at, `{,%s} is not a quantifier: write {0,%s}, or \{,%s\} for the text`, n, n, n)
	}
}

// doubled refuses what follows a quantifier in other engines.
func (p *parser) doubled() {
	switch p.next(0) {
	case '+':
		p.fail(p.at, "ECMA-262 has no possessive quantifiers")
	case '*', '?':
		p.fail(p.at, "a quantifier cannot follow another")
	}
}

func (p *parser) lineBegin(at int) *node {
	if p.flags.multiline {
		p.change(at, at+1, `(?<![^\n])`)
	}
	return &node{op: opBegin}
}

func (p *parser) lineEnd(at int) *node {
	if p.flags.multiline {
		p.change(at, at+1, `(?![^\n])`)
	}
	return &node{op: opEnd}
}

func (p *parser) dot(at int) *node {
	if p.flags.dotAll {
		p.change(at, at+1, `[\s\S]`)
	}
	return &node{op: opSet, set: lineEnds.complement()}
}

// literal is a code point that stands for itself.
func (p *parser) literal(r rune, start int) *node {
	return p.folded(&node{op: opSet, set: set{{r, r}}}, start)
}

// folded writes out both cases of a code point where (?i) is on.
func (p *parser) folded(n *node, start int) *node {
	if p.flags.fold {
		if others := otherCases(n.set); len(others) > 0 {
			p.change(start, p.at, "["+union(append(others, n.set...)).ranges()+"]")
		}
	}
	return n
}

// foldedElement adds the other cases of a member of a class where (?i) is on.
func (p *parser) foldedElement(from, to element) {
	if !p.flags.fold || !from.point || !to.point {
		return
	}
	s := set{{from.set[0].low, to.set[0].low}}
	if others := otherCases(s); len(others) > 0 {
		p.change(p.at, p.at, others.ranges())
	}
}

// otherCases are the code points outside s that differ from one in it by case alone.
func otherCases(s set) set {
	var spans []span
	for _, sp := range s {
		if sp.high-sp.low > 0x3000 {
			continue // nobody spells out such a range to have its cases folded
		}
		for r := sp.low; r <= sp.high; r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				// K and s have a sign for Kelvin and a long s among their cases: nobody means those.
				if !s.has(f) && (f < 0x80) == (r < 0x80) {
					spans = append(spans, span{f, f})
				}
			}
		}
	}
	return union(spans)
}

// quoted reads one code point between \Q and \E.
func (p *parser) quoted() *node {
	start := p.at
	if p.unquoted() {
		return nil
	}
	r := p.next(0)
	p.at++
	n := &node{op: opSet, set: set{{r, r}}}
	if strings.ContainsRune(`^$\.*+?()[]{}|`, r) {
		p.change(start, p.at, `\`+string(r))
	} else {
		p.folded(n, start)
	}
	p.unquoted()
	return n
}

// unquoted reads \E.
func (p *parser) unquoted() bool {
	start := p.at
	if !p.take(`\E`) {
		return false
	}
	p.change(start, p.at, "")
	p.quoting = false
	return true
}

// foreignEscape reads the escapes of other engines behind the backslash; false when it is none.
func (p *parser) foreignEscape(start int) (*node, bool) {
	replace := func(n int, form string, found *node) (*node, bool) {
		p.blame(start, `ECMA-262 has no %s`, string(p.text[start:min(p.at+n, len(p.text))]))
		p.at += n
		p.change(start, p.at, form)
		return found, true
	}
	some := &node{op: opSet, set: anything}
	switch r := p.next(0); r {
	case 'A':
		return replace(1, "^", &node{op: opBegin})
	case 'z', 'Z':
		return replace(1, "$", &node{op: opEnd})
	case 'Q':
		replace(1, "", nil)
		p.quoting = true
		return nil, true
	case 'E':
		return replace(1, "", nil)
	case 'h':
		return replace(1, `[ \t]`, some)
	case 'H':
		return replace(1, `[^ \t]`, some)
	case 'N':
		return replace(1, `[^\n]`, some)
	case 'R':
		return replace(1, `(?:\r\n|[\n-\r\x85\u2028\u2029])`, some)
	case 'k', 'g':
		return p.foreignBack(start)
	case 'G', 'K', 'X', 'C':
		p.fail(start, `ECMA-262 has no \%c, nor anything like it`, r)
	}
	return nil, false
}

// foreignBack reads \k'n', \k{n}, \g1 and \g{1}.
func (p *parser) foreignBack(start int) (*node, bool) {
	ends := map[rune]rune{'{': '}', '\'': '\'', '<': '>'}
	var name string
	end := p.at + 1
	if close, ok := ends[p.next(1)]; ok {
		if i := slices.Index(p.text[min(p.at+2, len(p.text)):], close); i >= 0 {
			end = p.at + 3 + i
			name = string(p.text[p.at+2 : end-1])
		}
	} else {
		for end < len(p.text) && isDigit(p.text[end]) {
			end++
		}
		name = string(p.text[p.at+1 : end])
	}
	numbered := name != "" && strings.Trim(name, "0123456789") == ""
	if name == "" || p.next(0) == 'k' && numbered {
		p.fail(start, `\%c needs the name of a group: \k<name>`, p.next(0))
	}
	p.blame(start, `ECMA-262 has no %s`, string(p.text[start:end]))
	p.at = end
	if numbered {
		p.change(start, end, `(?:\`+name+`)`)
		return &node{op: opEmpty}, true
	}
	p.change(start, end, `\k<`+name+`>`)
	return p.back(&node{op: opBack, name: name, at: start}), true
}

// foreignClassEscape reads escapes of other engines that stand for a set within a class.
func (p *parser) foreignClassEscape(start int) (set, bool) {
	if p.next(0) != 'h' {
		return nil, false
	}
	p.at++
	p.blame(start, `ECMA-262 has no \h`)
	p.change(start, p.at, ` \t`)
	return set{{'\t', '\t'}, {' ', ' '}}, true
}

// foreignCharacter reads an escape of one code point that ECMA-262 with the u flag does not know; r
// was taken.
func (p *parser) foreignCharacter(start int, r rune, inClass bool) (rune, bool) {
	switch {
	case r == 'a' || r == 'e':
		p.blame(start, `ECMA-262 has no \%c`, r)
		v, form := '\a', `\x07`
		if r == 'e' {
			v, form = 0x1B, `\x1B`
		}
		p.change(start, p.at, form)
		return v, true
	case r == 'x' && p.next(0) == '{':
		p.blame(start, `ECMA-262 has no \x{…}`)
		p.change(start, p.at, `\u`)
		p.at--
		return p.unicodeEscape(start), true
	case r == 'x':
		p.fail(start, `\x needs two hexadecimal digits`)
	case isDigit(r):
		v := r - '0'
		for v < 0o40 && '0' <= p.next(0) && p.next(0) <= '7' {
			v = v*8 + p.next(0) - '0'
			p.at++
		}
		if r > '7' {
			p.fail(start, `\%c names no group within a class`, r)
		}
		p.blame(start, `ECMA-262 with the u flag has no octal escape such as %s`, string(p.text[start:p.at]))
		p.change(start, p.at, (set{{0, v}}).hexOfHigh())
		return v, true
	case isLetter(r):
		p.fail(start, `ECMA-262 has no \%c`, r)
	}
	p.blame(start, `with the u flag %c needs no escape and takes none`, r)
	form := string(r)
	p.change(start, p.at, form)
	return r, true
}

// hexOfHigh writes the last code point of s as an escape.
func (s set) hexOfHigh() string {
	const digit = "0123456789ABCDEF"
	r := s[len(s)-1].high
	return `\x` + string(digit[r>>4&15]) + string(digit[r&15])
}

// foreignGroup reads what other engines write behind "(?" and "(*".
func (p *parser) foreignGroup() *node {
	start := p.at
	switch {
	case p.take("(?P<"), p.take("(?'"):
		end := '>'
		if p.text[p.at-1] == '\'' {
			end = '\''
		}
		p.blame(start, "ECMA-262 names a group with (?<name>, not with %s", string(p.text[start:p.at]))
		p.change(start, p.at, "(?<")
		name := p.groupName(end)
		p.change(p.at-1, p.at, ">")
		return p.capture(start, name)
	case p.take("(?P="):
		p.blame(start, `ECMA-262 refers to a group with \k<name>`)
		name := p.groupName(')')
		p.change(start, p.at, `\k<`+name+`>`)
		return p.back(&node{op: opBack, name: name, at: start})
	case p.take("(?#"):
		end := slices.Index(p.text[p.at:], ')')
		if end < 0 {
			p.fail(start, "the comment is not closed")
		}
		p.at += end + 1
		p.blame(start, "ECMA-262 has no comments in a pattern")
		p.change(start, p.at, "")
		return nil
	case p.ahead("(?>"):
		p.fail(start, "ECMA-262 has no atomic groups (?>…)")
	case p.ahead("(?("):
		p.fail(start, "ECMA-262 has no conditions (?(…)")
	case p.ahead("(*"):
		p.fail(start, "nothing stands before the quantifier * in (*")
	}
	return p.inlineFlags(start)
}

// inlineFlags reads (?i) and (?i:…).
func (p *parser) inlineFlags(start int) *node {
	p.at += 2
	on, set := true, p.flags
	for ; p.more() && p.next(0) != ')' && p.next(0) != ':'; p.at++ {
		switch r := p.next(0); r {
		case '-':
			on = false
		case 'i':
			set.fold = on
		case 's':
			set.dotAll = on
		case 'm':
			set.multiline = on
		case 'U', 'u', 'n': // which match is preferred, what \w means, what is kept
		default:
			p.fail(start, "ECMA-262 has no group that begins with %s", string(p.text[start:p.at+1]))
		}
	}
	if !p.more() {
		p.fail(start, "the group %s is not closed", p.excerpt(start))
	}
	p.at++
	head := string(p.text[start:p.at])
	p.blame(start, "%s sets flags within the pattern, which JavaScript engines do not know", head)
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

// posixForms are the classes that POSIX writes within brackets.
var posixForms = map[string]string{
	"alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": `\x00-\x7F`, "blank": `\t `, "cntrl": `\x00-\x1F\x7F`, "digit": `\d`,
	"graph": "!-~", "lower": "a-z", "print": " -~", "punct": `!-\/:-@\[-` + "`{-~", "space": `\s`, "upper": "A-Z", "word": `\w`,
	"xdigit": "0-9A-Fa-f",
	"^digit": `\D`, "^space": `\S`, "^word": `\W`,
}

// posixClass reads [:alpha:] within a class where that is what the author means: JavaScript takes
// its brackets and letters for members of the class.
func (p *parser) posixClass() (set, bool) {
	if !p.lenient || !p.ahead("[:") {
		return nil, false
	}
	end := slices.Index(p.text[p.at+2:], ':')
	if end < 0 || p.next(end+3) != ']' {
		return nil, false
	}
	name := string(p.text[p.at+2 : p.at+2+end])
	form, known := posixForms[name]
	if !known {
		return nil, false
	}
	start := p.at
	p.at += end + 4
	p.blame(start, "ECMA-262 has no [:%s:]", name)
	p.change(start, p.at, form)
	return set{{'a', 'a'}}, true
}

// bracketFirst reads a bracket that closes a class at once, which other engines take for a member.
func (p *parser) bracketFirst(start int) {
	if !p.lenient || p.next(0) != ']' {
		return
	}
	p.blame(start, "a class that begins with ] is empty in ECMA-262")
	p.change(p.at, p.at+1, `\]`)
	p.at++
}

// intersection refuses the set operations of the v flag and of Java.
func (p *parser) intersection() {
	if p.lenient && (p.ahead("&&[") || p.ahead("--[")) {
		p.fail(p.at, "with the u flag classes are not intersected or subtracted; a lookahead before the class does it: (?![…])[…]")
	}
}

// shortProperty reads \pL.
func (p *parser) shortProperty(start int) set {
	letter := string(p.next(0))
	s, known := generalCategory(letter)
	if !p.more() || !known {
		p.fail(start, `\%c needs a property in braces, as in \p{L}`, p.text[start+1])
	}
	p.at++
	p.blame(start, `ECMA-262 writes a property in braces`)
	p.change(start, p.at, `\`+string(p.text[start+1])+"{"+letter+"}")
	return s
}

// foreignProperty finds what a name that ECMA-262 does not know may stand for.
func (p *parser) foreignProperty(start int, name string) set {
	head := string(p.text[start+1])
	p.blame(start, `ECMA-262 has no property \%s{%s}`, head, name)
	rest, negated := strings.CutPrefix(name, "^")
	if negated {
		head = map[string]string{"p": "P", "P": "p"}[head]
	}
	for _, form := range propertyForms(rest) {
		if s, known := propertySet(form); known {
			p.change(start, p.at, `\`+head+"{"+form+"}")
			return s
		}
	}
	p.fail(start, `ECMA-262 has no property \%s{%s}`, head, name)
	return nil
}

// propertyForms are names of ECMA-262 that a name of another engine may mean.
func propertyForms(name string) []string {
	forms := []string{name, "Script=" + name}
	for _, prefix := range []string{"Is", "In", "is", "in"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			forms = append(forms, rest, "Script="+rest)
		}
	}
	folded := foldName(name)
	for _, known := range propertyNames() {
		if foldName(known) == folded {
			forms = append(forms, known)
		}
	}
	return forms
}

var nameMarks = strings.NewReplacer("_", "", " ", "", "-", "")

// foldName is what names of properties have in common that differ in case and marks alone.
func foldName(s string) string { return strings.ToLower(nameMarks.Replace(s)) }

// propertyNames lists what \p{…} may name, sorted.
func propertyNames() []string {
	var all []string
	for n := range unicode.CategoryAliases {
		all = append(all, n)
	}
	for n := range unicode.Categories {
		all = append(all, n)
	}
	for n := range property {
		all = append(all, n)
	}
	for n := range listed {
		all = append(all, n)
	}
	for n := range unicode.Scripts {
		all = append(all, "Script="+n)
	}
	slices.Sort(all)
	return all
}
