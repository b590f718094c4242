package eventsimpl

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// Literal returns the canonical text of a JSON value, which is the same for all equal values. It contains no white
// space, its members are sorted by name, and its numbers are exact regardless of their length (1.0 and 1 are both 1).
// An enum with values of several types is represented as a string that contains this text.
func Literal(data []byte) (string, error) {
	val := jsontext.Value(bytes.Clone(data))
	err := val.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return "", asDecodeError(err)
	}
	var out strings.Builder
	for i := 0; i < len(val); {
		switch c := val[i]; {
		case c == '"':
			end := i + 1
			for val[end] != '"' {
				if val[end] == '\\' {
					end++
				}
				end++
			}
			out.Write(val[i : end+1])
			i = end + 1
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(val) && strings.IndexByte("0123456789.eE+-", val[end]) >= 0 {
				end++
			}
			out.WriteString(exactNumber(string(val[i:end])))
			i = end
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.String(), nil
}

// exactNumber returns the canonical text of a JSON number in decimal or exponential notation.
func exactNumber(text string) string {
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(rest[i+1:], "+"))
		if err != nil {
			return text // too large to be compared
		}
		mantissa, exponent = rest[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	kept := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(kept)
	if kept == "" {
		return "0"
	}
	switch {
	case exponent >= 0 && exponent+len(kept) <= 40:
		kept += strings.Repeat("0", exponent)
	case exponent < 0 && -exponent < len(kept):
		kept = kept[:len(kept)+exponent] + "." + kept[len(kept)+exponent:]
	case exponent < 0 && -exponent <= 40:
		kept = "0." + strings.Repeat("0", -exponent-len(kept)) + kept
	default:
		kept += "e" + strconv.Itoa(exponent)
	}
	if negative {
		return "-" + kept
	}
	return kept
}

// DecodeLiteral stores the [Literal] text of any JSON value in into. It is called by the generated UnmarshalJSON
// methods of enums with values of several types.
func DecodeLiteral(data []byte, into *string) error {
	text, err := Literal(data)
	if err == nil {
		*into = text
	}
	return err
}

// EncodeLiteral returns the JSON value for a [Literal] text. It returns null for an empty text.
func EncodeLiteral(text string) ([]byte, error) {
	if text == "" {
		return []byte("null"), nil
	}
	if !jsontext.Value(text).IsValid() {
		return nil, fmt.Errorf("events: encode: %s is not a JSON value", codec.Clip(text))
	}
	return []byte(text), nil
}
