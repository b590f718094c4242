// Package codec gives the other packages the JSON codec of generated types. The code is in package events, whose types
// need it and which does not export it; events sets the functions when it is initialized.
package codec

import "strings"

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
