package wire

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxShown is the maximum length of a peer's text in a message, in bytes.
const MaxShown = 128

// Shown returns a peer's text in a form that is safe for terminals and logs. It escapes control characters, other
// invisible characters, directional marks and invalid UTF-8. It truncates the text after MaxShown bytes and appends an
// ellipsis.
func Shown(text string) string {
	plain := len(text) <= MaxShown
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= ' ' && text[i] <= '~'
	}
	if plain {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		part := text[:size]
		if r == utf8.RuneError && size == 1 {
			part = `\x` + strconv.FormatUint(uint64(text[0])|0x100, 16)[1:]
		} else if !strconv.IsPrint(r) {
			quoted := strconv.QuoteRune(r)
			part = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(part) > MaxShown {
			b.WriteString("…")
			break
		}
		b.WriteString(part)
		text = text[size:]
	}
	return b.String()
}
