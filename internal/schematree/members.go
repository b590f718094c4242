package schematree

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Members contains the members of a JSON object in order.
type Members []Property

// A Property is a member of [Members]. Value is JSON text, and Start its offset in the text of the object.
type Property struct {
	Name  string
	Value json.RawMessage
	Start int
}

// ParseMembers parses the top level of a compact JSON object. The values share the memory of raw. If raw is not an
// object, the result is empty.
func ParseMembers(raw json.RawMessage) Members {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	// The decoder reads raw in place. It accepts duplicate names, because compiling the schema reports them.
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	obj := make(Members, 0, 8)
	for dec.PeekKind() == '"' {
		key, err := dec.ReadToken()
		if err != nil {
			return obj
		}
		name := key.String()
		value, err := dec.ReadValue()
		if err != nil {
			return obj
		}
		end := int(dec.InputOffset())
		start := end - len(value)
		obj = append(obj, Property{name, raw[start:end:end], start})
	}
	return obj
}

// Get returns the value of a member, or nil.
func (o Members) Get(key string) json.RawMessage {
	for _, p := range o {
		if p.Name == key {
			return p.Value
		}
	}
	return nil
}

// With returns o with key set to value. A new key is appended.
func (o Members) With(key string, value json.RawMessage) Members {
	for i, p := range o {
		if p.Name == key {
			o[i].Value = value
			return o
		}
	}
	return append(o, Property{Name: key, Value: value})
}

// Without returns o without key.
func (o Members) Without(key string) Members {
	for i, p := range o {
		if p.Name == key {
			return append(o[:i:i], o[i+1:]...)
		}
	}
	return o
}

// JSON returns o as compact JSON.
func (o Members) JSON() json.RawMessage {
	size := len("{}")
	for _, p := range o {
		size += len(p.Name) + len(p.Value) + len(`"":,`)
	}
	return o.append(make([]byte, 0, size), func(b []byte, p Property) []byte { return append(b, p.Value...) })
}

// append appends o as compact JSON to b. value appends the value of a member.
func (o Members) append(b []byte, value func(b []byte, p Property) []byte) []byte {
	b = append(b, '{')
	for i, p := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(append(AppendString(b, p.Name), ':'), p)
	}
	return append(b, '}')
}

// AppendString appends s as a JSON string, and escapes only the characters that JSON requires. It replaces invalid
// UTF-8.
func AppendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}
