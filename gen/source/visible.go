package source

import (
	"fmt"
	"strings"
	"unicode"
)

// Hidden reports whether JSON may have r in a string and generated code has to escape it: control
// characters, the byte order mark and noncharacters.
func Hidden(r rune) bool {
	return unicode.IsControl(r) || r == byteOrderMark || r == 0xFFFE || r == 0xFFFF
}

// Visible returns s with the escapes of JSON in the place of hidden characters. Line ends and tabs stay.
func Visible(s string) string {
	hidden := func(r rune) bool { return Hidden(r) && r != '\n' && r != '\r' && r != '\t' }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
