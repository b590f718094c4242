package readtool

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// An object contains the members of a JSON object in order, with their values as JSON text.
type object []textMember

type textMember struct {
	key   string
	value json.RawMessage
}

// parseObject parses the top level of a compact JSON object. The values share the memory of raw. If raw is not an
// object, the result is empty.
func parseObject(raw json.RawMessage) object {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	dec := newDecoder(raw)
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	obj := make(object, 0, 8)
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
		end := dec.InputOffset()
		obj = append(obj, textMember{name, raw[end-int64(len(value)) : end : end]})
	}
	return obj
}

// newDecoder returns a decoder that reads raw in place. It accepts duplicate names, because compiling the schema
// reports them.
func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
}

func (o object) get(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// withMember returns o with key set to value. A new key is appended.
func (o object) withMember(key string, value json.RawMessage) object {
	for i, m := range o {
		if m.key == key {
			o[i].value = value
			return o
		}
	}
	return append(o, textMember{key, value})
}

func (o object) without(key string) object {
	for i, m := range o {
		if m.key == key {
			return append(o[:i:i], o[i+1:]...)
		}
	}
	return o
}

func (o object) bytes() json.RawMessage {
	size := len("{}")
	for _, m := range o {
		size += len(m.key) + len(m.value) + len(`"":,`)
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, m.key)
		b = append(b, ':')
		b = append(b, m.value...)
	}
	return append(b, '}')
}

// appendString appends s as a JSON string. It replaces invalid UTF-8.
func appendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}
