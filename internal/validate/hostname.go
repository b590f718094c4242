package validate

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

var (
	hostname    = textFormat("hostname", errors.New("is not a host name of RFC 1123"), isHostname)
	idnHostname = textFormat("idn-hostname", errors.New("is not a host name of RFC 5890"), isIDNHostname)
	email       = textFormat("email", errors.New("is not a mailbox of RFC 5321"), newMailboxCheck(asciiLocal, isHostname))
	idnEmail    = textFormat("idn-email", errors.New("is not a mailbox of RFC 6531"), newMailboxCheck(anyLocal, isMailDomain))
)

// Limits of RFC 1035 and RFC 5321, in octets.
const (
	maxHost  = 253
	maxLocal = 64
)

// isHostname accepts labels of letters, digits and inner hyphens. A label with the prefix xn-- must be the encoding of
// a label that IDNA 2008 allows.
func isHostname(text string) bool { return isASCII(text) && isIDNHostname(text) }

// isIDNHostname accepts labels in any script (RFC 5891 to 5893) and in either case.
func isIDNHostname(text string) bool {
	// Each character has at least one octet.
	if utf8.RuneCountInString(text) > maxHost || !utf8.ValidString(text) {
		return false
	}
	text = strings.Map(lowerCase, fullStops.Replace(text))
	decoded, err := idnaProfile.ToUnicode(text)
	if err != nil || strings.HasSuffix(text, ".") {
		return false
	}
	encoded, err := idnaProfile.ToASCII(decoded)
	if err != nil {
		return false
	}
	given, canonical := strings.Split(text, "."), strings.Split(encoded, ".")
	for i, label := range strings.Split(decoded, ".") {
		if strings.HasPrefix(given[i], "xn--") && given[i] != canonical[i] || !isULabel([]rune(label)) {
			return false
		}
	}
	return true
}

// isMailDomain accepts a host name in any normalization form, because RFC 6531 only recommends NFC.
func isMailDomain(text string) bool { return isIDNHostname(norm.NFC.String(text)) }

// idnaProfile does not check hyphens, because package idna counts their positions in octets. isULabel checks them
// instead.
var idnaProfile = idna.New(idna.ValidateForRegistration(), idna.CheckHyphens(false))

// lowerCase maps capital letters to the letters that IDNA 2008 allows. For Cherokee, IDNA 2008 allows the capitals.
func lowerCase(r rune) rune {
	if unicode.Is(unicode.Cherokee, r) {
		return r
	}
	return unicode.ToLower(r)
}

// fullStops replaces the characters that separate labels in other scripts.
var fullStops = strings.NewReplacer("\u3002", ".", "\uFF0E", ".", "\uFF61", ".")

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// isULabel checks the positions of hyphens (RFC 5891, section 4.2.3.1) and the rules of RFC 5892 that package idna
// omits. Package idna allows symbols, and it allows the characters of appendices A.3 to A.9 in any position.
func isULabel(label []rune) bool {
	if label[0] == '-' || label[len(label)-1] == '-' || len(label) >= 4 && label[2] == '-' && label[3] == '-' {
		return false
	}
	for i, r := range label {
		if !allowedAt(label, i, r) {
			return false
		}
	}
	return true
}

// codePointExceptions lists the characters that RFC 5892, section 2.6, allows or rejects regardless of their category.
var codePointExceptions = map[rune]bool{
	0x6FD: true, 0x6FE: true, 0xF0B: true, 0x3007: true,
	0x640: false, 0x7FA: false, 0x302E: false, 0x302F: false, 0x3031: false, 0x3032: false, 0x3033: false, 0x3034: false, 0x3035: false,
	0x303B: false,
}

// allowedAt reports whether r is allowed at index i of a label that package idna accepts.
func allowedAt(label []rune, i int, r rune) bool {
	before, after := rune(-1), rune(-1)
	if i > 0 {
		before = label[i-1]
	}
	if i+1 < len(label) {
		after = label[i+1]
	}
	if allowed, listed := codePointExceptions[r]; listed {
		return allowed
	}
	switch {
	case r < utf8.RuneSelf, r == 0x200C, r == 0x200D:
		return true // idna checks these
	case r == 0xB7:
		return before == 'l' && after == 'l'
	case r == 0x375:
		return unicode.Is(unicode.Greek, after)
	case r == 0x5F3 || r == 0x5F4:
		return unicode.Is(unicode.Hebrew, before)
	case r == 0x30FB:
		return slices.ContainsFunc(label, func(r rune) bool {
			return unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han) && r != 0x30FB
		})
	case 0x660 <= r && r <= 0x669:
		return !slices.ContainsFunc(label, func(r rune) bool { return 0x6F0 <= r && r <= 0x6F9 })
	}
	return unicode.In(r, unicode.Ll, unicode.Lu, unicode.Lo, unicode.Lm, unicode.Mn, unicode.Mc, unicode.Nd)
}

// newMailboxCheck returns a check for local@domain. The domain can be an IP address in brackets.
func newMailboxCheck(local *regexp.Regexp, domain func(string) bool) func(string) bool {
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
			return ipv4Format.Validate(literal) == nil
		}
		return domain(host)
	}
}

var asciiLocal, anyLocal = localForm(""), localForm(`\x{80}-\x{10FFFF}`)

func localForm(more string) *regexp.Regexp {
	atom := "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" + more + "-]+"
	return regexp.MustCompile(`^(?:` + atom + `(?:\.` + atom + `)*|"(?:[ !#-\[\]-~` + more + `]|\\[ -~])*")$`)
}
