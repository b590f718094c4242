package typescript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// quote returns a string literal.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r' || r == '\t' || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(source.Visible(string(r)))
		}
	}
	b.WriteByte('\'')
	return b.String()
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// typeKey returns the name of a member for use in a type. It quotes names that are not identifiers (TS-5).
func typeKey(name string) string {
	if identifier.MatchString(name) && name != "__proto__" {
		return name
	}
	return quote(name)
}

// valueKey is like key for an object literal, in which __proto__ would set the prototype.
func valueKey(name string) string {
	if name == "__proto__" {
		return "['__proto__']"
	}
	return typeKey(name)
}

// number returns a numeric literal. It returns false if a double cannot represent the number exactly.
func number(text string) (string, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return "", false
	}
	if f == math.Trunc(f) && math.Abs(f) > maxSafe {
		return "", false
	}
	if f == 0 {
		return "0", true
	}
	out, err := json.Marshal(f)
	return string(out), err == nil
}

// isRounded reports whether a JSON value contains a number that a double cannot represent.
func isRounded(raw json.RawMessage) bool {
	if len(raw) == 0 || raw[0] == '"' {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for t, err := d.Token(); err == nil; t, err = d.Token() {
		if n, ok := t.(json.Number); ok {
			if _, exact := number(n.String()); !exact {
				return true
			}
		}
	}
	return false
}

// maxSafe is the largest safe integer. A double can represent all integers up to this value.
const maxSafe = 1<<53 - 1

// literalType returns the type of a single JSON value, or the narrowest TypeScript type that includes the value.
func literalType(raw json.RawMessage) string { return literal(raw, typeKey) }

// literalValue returns a JSON value as an expression.
func literalValue(raw json.RawMessage) string { return literal(raw, valueKey) }

func literal(raw json.RawMessage, key func(string) string) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var b strings.Builder
	if err := writeLiteral(&b, d, key); err != nil {
		return "unknown" // a model contains only valid JSON
	}
	return b.String()
}

// writeLiteral copies a value token by token to preserve the order of members.
func writeLiteral(b *strings.Builder, d *json.Decoder, key func(string) string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		closing, sep := "]", ""
		if v == '{' {
			closing, sep = " }", " "
		}
		b.WriteString(v.String())
		for ; d.More(); sep = ", " {
			b.WriteString(sep)
			if v == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				b.WriteString(key(name.(string)) + ": ")
			}
			if err := writeLiteral(b, d, key); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
		b.WriteString(closing)
	case string:
		b.WriteString(quote(v))
	case json.Number:
		if text, ok := number(v.String()); ok {
			b.WriteString(text)
		} else if key("__proto__") == "['__proto__']" {
			b.WriteString("Number(" + quote(v.String()) + ")")
		} else {
			b.WriteString("number")
		}
	case nil:
		b.WriteString("null")
	default:
		fmt.Fprint(b, v)
	}
	return nil
}
