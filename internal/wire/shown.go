package wire

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxShown is how many bytes of a peer's text go into a message.
const MaxShown = 128

// Shown makes a peer's text fit for a message that people read on a terminal and in logs: what is not
// visible (control characters, directional marks, invalid UTF-8) is written as an escape, and after
// MaxShown bytes comes an ellipsis.
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
