// Package plain escapes third-party text so that it can be shown safely to people and models. mcpe-gen prints text from
// servers only through this package.
package plain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s as a single line with hidden content escaped as in Go. Hidden content means control characters, line
// ends, direction marks, invisible characters, more than [MaxMarks] consecutive combining marks, and invalid UTF-8.
func Text(s string) string { return escape(s, Hidden) }

// Lines is like Text, but does not escape line ends and tabs.
func Lines(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && r != '\t' && Hidden(r) })
}

// Cut truncates s to the maximum number of bytes without splitting a character.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// Hidden reports whether r is invisible or is displayed as something else.
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

// JSON returns an equivalent JSON text with hidden content escaped. It preserves line ends, spaces and tabs, because
// they occur only between values.
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
