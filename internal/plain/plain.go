// Package plain makes text of others safe to show to people and models: mcpe-gen prints what a server sends only through it.
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
// line ends, marks of direction, invisible characters, more than [MaxMarks] combining marks in a row, bytes that are not UTF-8.
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
func Hidden(r rune) bool {
	return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r) || Invisible(r))
}

func escape(s string, hidden func(rune) bool) string {
	var b strings.Builder
	var marks Marks
	copied := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		broken, stacked := r == utf8.RuneError && n == 1, marks.TooMany(r)
		if broken || stacked || hidden(r) {
			b.WriteString(s[copied:i])
			copied = i + n
			if broken {
				fmt.Fprintf(&b, `\x%02x`, s[i])
			} else {
				b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			}
		}
		i += n
	}
	if copied == 0 {
		return s
	}
	return b.String() + s[copied:]
}

// JSON is a JSON text that means the same, with what does not show escaped. Line ends, blanks and tabs
// stay: they stand between values only.
func JSON(text []byte) []byte {
	var b strings.Builder
	var marks Marks
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		stacked := marks.TooMany(r)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\ufffd`)
		case r == '\n' || r == '\t' || !Hidden(r) && !stacked:
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
