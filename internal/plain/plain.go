// Package plain makes text of others safe for the terminal: mcpe-gen prints what a server sends only through it.
package plain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is s in one line, with everything that does not show escaped as in Go: controls of both sets,
// line ends, marks of direction, bytes that are no UTF-8.
func Text(s string) string { return escape(s, Hidden) }

// Lines is Text that leaves line ends and tabs as they are, for texts of several lines.
func Lines(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && r != '\t' && Hidden(r) })
}

// Cut is the beginning of s of at most so many bytes, in whole characters.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// Hidden reports whether r does not show as itself.
func Hidden(r rune) bool { return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) }

func escape(s string, hidden func(rune) bool) string {
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// JSON is a JSON text that means the same, with what does not show escaped. Line ends, blanks and tabs
// stay: they stand between values only.
func JSON(text []byte) []byte {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\ufffd`)
		case r == '\n' || r == '\t' || !Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return []byte(b.String())
}
