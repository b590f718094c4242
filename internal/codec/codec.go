// Package codec gives other packages access to the JSON codec of generated types. Package events implements the codec
// and sets the functions during initialization, but does not export it.
package codec

import (
	"bytes"
	"strconv"
	"strings"
)

var (
	// Decode decodes JSON into v by the rules for generated types. Member names must match exactly. Unknown members are
	// ignored, unless a field tagged `json:",embed,unknown"` keeps them. Duplicate names and invalid UTF-8 are errors.
	// Integer types accept 1.0 and 1e2, but not 1.5. json.Number preserves the text of the number, and []byte is
	// base64. Errors have type *events.DecodeError.
	Decode func(data []byte, v any) error
	// Encode encodes v by the rules for generated types. It encodes nil slices and maps as [] and {}, sorts map
	// members, does not escape HTML and does not change json.Number. Encoding a zero events.Time is an error. Errors
	// have type
	// *events.EncodeError.
	Encode func(v any) ([]byte, error)
)

// Clip truncates long error messages.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ReplaceLoneSurrogates replaces each escape of a lone surrogate in JSON with \ufffd, as encoding/json decodes it.
// JavaScript encodes half of a truncated emoji as \ud83d, which the codec rejects. It returns data itself if there is
// no such escape.
func ReplaceLoneSurrogates(data []byte) []byte {
	out, cloned := data, false
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '\\')
		if n < 0 {
			return out
		}
		i += n
		switch unit := escaped(data[i:]); {
		case unit < 0:
			i += min(2, len(data)-i)
			continue
		case 0xd800 <= unit && unit < 0xdc00:
			if low := escaped(data[i+6:]); 0xdc00 <= low && low < 0xe000 {
				i += 12
				continue
			}
		case unit < 0xdc00 || unit >= 0xe000:
			i += 6
			continue
		}
		if !cloned {
			out, cloned = bytes.Clone(data), true
		}
		copy(out[i:], `\ufffd`)
		i += 6
	}
}

// escaped returns the UTF-16 code unit of the \u escape at the start of text, or -1.
func escaped(text []byte) int64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int64(unit)
}

// Deeper reports whether the nesting depth of the JSON exceeds levels.
func Deeper(data []byte, levels int) bool {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= levels {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > levels {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
