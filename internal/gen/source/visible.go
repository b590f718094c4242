package source

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// Hidden reports whether generated code must escape r, although JSON allows it in strings. Hidden characters are
// control characters, invisible characters, characters that change the text direction, and noncharacters.
func Hidden(r rune) bool { return plain.Invisible(r) || r == 0xFFFE || r == 0xFFFF }

// Visible returns s with hidden characters as JSON escapes. It keeps line ends and tabs.
func Visible(s string) string {
	hidden := func(r rune) bool { return Hidden(r) && r != '\n' && r != '\r' && r != '\t' }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Prose returns an author's text for comments and pages. It removes hidden characters, so readers see the whole text
// in order, and replaces each control character with a space. It keeps line ends and tabs.
func Prose(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || !Hidden(r):
			return r
		case unicode.IsControl(r):
			return ' '
		}
		return -1
	}, s)
}
