// Package codec gives the other packages the JSON codec of generated types. The code is in package events, whose types
// need it and which does not export it; events sets the functions when it is initialized.
package codec

import (
	"bytes"
	"strconv"
	"strings"
)

var (
	// Decode reads JSON into v as generated types need it. Member names match in their exact case and
	// unknown ones are ignored, unless a field tagged `json:",embed,unknown"` keeps them; duplicate
	// names and invalid UTF-8 are refused; integers of any size accept 1.0 and 1e2 but not 1.5;
	// json.Number keeps the number's text; []byte is base64. Errors are of type *events.DecodeError.
	Decode func(data []byte, v any) error
	// Encode writes v as generated types need it: nil slices and maps as [] and {}, map members sorted,
	// no HTML escaping, json.Number as it is. An events.Time that was never set is refused. Errors are of
	// type *events.EncodeError.
	Encode func(v any) ([]byte, error)
)

// Clip keeps error messages short whatever was sent.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ReplaceLoneSurrogates returns JSON with \ufffd in the place of each escape of a lone surrogate, as encoding/json reads
// it: JavaScript writes half of a cut emoji as \ud83d, which the codec refuses. Without such an escape it returns data.
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

// escaped returns the UTF-16 code unit of an escape that text begins with, -1 if it begins with something else.
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

// Deeper reports whether JSON is nested deeper than so many levels.
func Deeper(data []byte, levels int) bool {
	if len(data) <= levels {
		return false // too short to be that deep
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
