package source

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// Hidden reports whether JSON may have r in a string and generated code has to escape it: control characters, characters
// that show nothing or turn the direction of a line, and noncharacters.
func Hidden(r rune) bool { return plain.Invisible(r) || r == 0xFFFE || r == 0xFFFF }

// Visible returns s with the escapes of JSON in the place of hidden characters. Line ends and tabs stay.
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

// Prose returns an author's text as comments and pages show it: without hidden characters, so that a reader sees all of it
// in its order, and with a space for each control. Line ends and tabs stay.
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
