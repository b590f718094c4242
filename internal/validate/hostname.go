package validate

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/secure/bidirule"
	"golang.org/x/text/unicode/bidi"
)

var (
	hostname    = textFormat("hostname", errors.New("is not a host name of RFC 1123"), isHostname)
	idnHostname = textFormat("idn-hostname", errors.New("is not a host name of RFC 5890"), isIDNHostname)
	email       = textFormat("email", errors.New("is not a mailbox of RFC 5321"), mailbox(asciiLocal, isHostname))
	idnEmail    = textFormat("idn-email", errors.New("is not a mailbox of RFC 6531"), mailbox(anyLocal, isIDNHostname))
)

// The bounds of RFC 1035 and RFC 5321, in octets.
const (
	maxLabel = 63
	maxHost  = 253
	maxLocal = 64
)

// isHostname checks labels of letters, digits and inner hyphens; those in punycode must stand for
// what IDNA 2008 allows.
func isHostname(text string) bool {
	labels := strings.Split(text, ".")
	if len(text) > maxHost {
		return false
	}
	for i, label := range labels {
		plain, ok := asciiName(label)
		if !ok {
			return false
		}
		labels[i] = plain
	}
	return oneDirection(labels)
}

// asciiName checks one label and returns what it stands for.
func asciiName(label string) (string, bool) {
	if len(label) == 0 || len(label) > maxLabel || !asciiLabel.MatchString(label) {
		return "", false
	}
	if len(label) < 4 || label[2:4] != "--" {
		return label, true
	}
	plain, ok := punycode(label[4:])
	return plain, ok && strings.EqualFold(label[:2], "xn") && !isASCII(plain) && isULabel(plain)
}

// oneDirection checks the rule about writing directions of RFC 5893: it binds every label of a name
// that has one written from right to left.
func oneDirection(labels []string) bool {
	if !slices.ContainsFunc(labels, func(l string) bool { return bidirule.DirectionString(l) == bidi.RightToLeft }) {
		return true
	}
	return !slices.ContainsFunc(labels, func(l string) bool { return !bidirule.ValidString(l) })
}

var asciiLabel = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?$`)

// isIDNHostname checks labels as they are written in any script (RFC 5891, 5892).
func isIDNHostname(text string) bool {
	labels := strings.Split(strings.NewReplacer("\u3002", ".", "\uFF0E", ".", "\uFF61", ".").Replace(text), ".")
	length := len(labels) - 1
	for i, label := range labels {
		if isASCII(label) {
			plain, ok := asciiName(label)
			if !ok {
				return false
			}
			labels[i], length = plain, length+len(label)
			continue
		}
		n := 4 + punycodeLen([]rune(label))
		if n > maxLabel || !isULabel(label) {
			return false
		}
		length += n
	}
	return length <= maxHost && oneDirection(labels)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// isULabel checks what RFC 5891, section 5.4, asks of a label beyond ASCII.
func isULabel(label string) bool {
	runes := []rune(label)
	if len(runes) == 0 || runes[0] == '-' || runes[len(runes)-1] == '-' || unicode.Is(unicode.M, runes[0]) ||
		len(runes) >= 4 && runes[2] == '-' && runes[3] == '-' {
		return false
	}
	for i, r := range runes {
		if !allowedAt(runes, i, r) {
			return false
		}
	}
	return true
}

// exceptions are what RFC 5892, section 2.6, decides by itself.
var exceptions = map[rune]bool{
	0xDF: true, 0x3C2: true, 0x6FD: true, 0x6FE: true, 0xF0B: true, 0x3007: true,
	0x640: false, 0x7FA: false, 0x302E: false, 0x302F: false, 0x3031: false, 0x3032: false, 0x3033: false, 0x3034: false, 0x3035: false,
	0x303B: false,
}

// allowedAt reports whether a code point may stand at place i of a label: by what it is, or by what
// stands around it (RFC 5892, appendix A).
func allowedAt(label []rune, i int, r rune) bool {
	before, after := rune(-1), rune(-1)
	if i > 0 {
		before = label[i-1]
	}
	if i+1 < len(label) {
		after = label[i+1]
	}
	if allowed, listed := exceptions[r]; listed {
		return allowed
	}
	switch {
	case r == 0x200D:
		return unicode.Is(viramas, before)
	case r == 0x200C:
		return unicode.Is(viramas, before) || unicode.Is(joining, before) && unicode.Is(joining, after)
	case r == 0xB7:
		return before == 'l' && after == 'l'
	case r == 0x375:
		return unicode.Is(unicode.Greek, after)
	case r == 0x5F3 || r == 0x5F4:
		return unicode.Is(unicode.Hebrew, before)
	case r == 0x30FB:
		return containsIn(label, unicode.Hiragana, unicode.Katakana, unicode.Han)
	case 0x660 <= r && r <= 0x669:
		return !between(label, 0x6F0, 0x6F9)
	case 0x6F0 <= r && r <= 0x6F9:
		return !between(label, 0x660, 0x669)
	case r < utf8.RuneSelf:
		return r == '-' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.Ll, unicode.Lo, unicode.Lm, unicode.Mn, unicode.Mc, unicode.Nd) || unicode.Is(unicode.Lu, r)
}

// viramas are the code points of the combining class 9; joining those of scripts whose letters join.
var (
	viramas = &unicode.RangeTable{R16: []unicode.Range16{
		{Lo: 0x94D, Hi: 0xD4D, Stride: 0x80}, {Lo: 0xDCA, Hi: 0xDCA, Stride: 1}, {Lo: 0xE3A, Hi: 0xE3A, Stride: 1},
		{Lo: 0xEBA, Hi: 0xEBA, Stride: 1}, {Lo: 0xF84, Hi: 0xF84, Stride: 1}, {Lo: 0x1039, Hi: 0x103A, Stride: 1},
		{Lo: 0x1714, Hi: 0x1715, Stride: 1}, {Lo: 0x1734, Hi: 0x1734, Stride: 1}, {Lo: 0x17D2, Hi: 0x17D2, Stride: 1},
		{Lo: 0x1A60, Hi: 0x1A60, Stride: 1}, {Lo: 0x1B44, Hi: 0x1B44, Stride: 1}, {Lo: 0x1BAA, Hi: 0x1BAB, Stride: 1},
		{Lo: 0x1BF2, Hi: 0x1BF3, Stride: 1}, {Lo: 0x2D7F, Hi: 0x2D7F, Stride: 1}, {Lo: 0xA806, Hi: 0xA806, Stride: 1},
		{Lo: 0xA8C4, Hi: 0xA8C4, Stride: 1}, {Lo: 0xA953, Hi: 0xA953, Stride: 1}, {Lo: 0xA9C0, Hi: 0xA9C0, Stride: 1},
		{Lo: 0xAAF6, Hi: 0xAAF6, Stride: 1}, {Lo: 0xABED, Hi: 0xABED, Stride: 1},
	}}
	joining = &unicode.RangeTable{R16: []unicode.Range16{
		{Lo: 0x620, Hi: 0x6D5, Stride: 1}, {Lo: 0x6FA, Hi: 0x6FF, Stride: 1}, {Lo: 0x710, Hi: 0x77F, Stride: 1},
		{Lo: 0x7CA, Hi: 0x7EA, Stride: 1}, {Lo: 0x840, Hi: 0x858, Stride: 1}, {Lo: 0x8A0, Hi: 0x8C7, Stride: 1},
		{Lo: 0x1820, Hi: 0x1878, Stride: 1}, {Lo: 0xA840, Hi: 0xA872, Stride: 1},
	}}
)

func containsIn(label []rune, tables ...*unicode.RangeTable) bool {
	for _, r := range label {
		if r != 0x30FB && unicode.In(r, tables...) {
			return true
		}
	}
	return false
}

func between(label []rune, low, high rune) bool {
	for _, r := range label {
		if low <= r && r <= high {
			return true
		}
	}
	return false
}

// mailbox checks local@domain; the domain may be an address in brackets.
func mailbox(local *regexp.Regexp, domain func(string) bool) func(string) bool {
	return func(text string) bool {
		at := strings.LastIndexByte(text, '@')
		if at < 1 || at > maxLocal || !local.MatchString(text[:at]) {
			return false
		}
		host := text[at+1:]
		if literal, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(literal, "]") {
			literal = strings.TrimSuffix(literal, "]")
			if len(literal) > 5 && strings.EqualFold(literal[:5], "IPv6:") {
				return isIPv6(literal[5:])
			}
			return ipv4.Validate(literal) == nil
		}
		return domain(host)
	}
}

var asciiLocal, anyLocal = localForm(""), localForm(`\x{80}-\x{10FFFF}`)

func localForm(more string) *regexp.Regexp {
	atom := "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" + more + "-]+"
	return regexp.MustCompile(`^(?:` + atom + `(?:\.` + atom + `)*|"(?:[ !#-\[\]-~` + more + `]|\\[ -~])*")$`)
}
