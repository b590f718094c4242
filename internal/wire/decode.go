package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// Decode decodes raw, a document of a peer, into v by the rule of all modes. Member names must match exactly, unknown
// members are ignored, and duplicate members and invalid UTF-8 are errors at any depth. The escape of a lone
// surrogate is read as U+FFFD. In the identifiers eventId, name, cursor and nextCursor it is an error, because two
// identifiers could become equal. The error names the place and contains no value of the peer.
func Decode(raw []byte, v any) error {
	whole := codec.ReplaceLoneSurrogates(raw)
	if !bytes.Equal(whole, raw) {
		if members, err := DecodeMembers(raw); err == nil {
			for _, name := range identifiers {
				var value jsontext.Value
				if err := members.Read(name, &value); err != nil {
					return err
				}
			}
		}
	}
	return decodeAt("", whole, v)
}

// identifiers lists the members whose text must not change.
var identifiers = []string{"eventId", "name", "cursor", "nextCursor"}

// decodeAt is like [Decode] for the value at a place in a document.
func decodeAt(base string, raw []byte, v any) error {
	err := jsonv2.Unmarshal(raw, v)
	if err == nil {
		return nil
	}
	var syn *jsontext.SyntacticError
	var sem *jsonv2.SemanticError
	switch {
	case errors.As(err, &syn):
		fault := syntaxErrors(syn).Errors[0]
		return fmt.Errorf("%s %s", place(base+fault.Path), fault.Message)
	case errors.As(err, &sem) && kindNames[sem.JSONKind] != "":
		return fmt.Errorf("%s cannot be %s", place(base+string(sem.JSONPointer)), kindNames[sem.JSONKind])
	}
	return err
}

var kindNames = map[jsontext.Kind]string{'n': "null", 't': "a boolean", 'f': "a boolean", '"': "this string", '0': "this number",
	'{': "an object", '[': "an array"}

func place(pointer string) string {
	if pointer == "" {
		return "it"
	}
	return Shown(pointer)
}

// Members holds the members of an object, with their raw values.
type Members map[string]json.RawMessage

// DecodeMembers splits an object and rejects duplicate members. The values share the memory of raw and are not
// validated, so an invalid value does not hide the others. Null is not an object.
func DecodeMembers(raw []byte) (Members, error) {
	dec := shallow(raw)
	if dec.PeekKind() != '{' {
		return nil, errors.New("not an object")
	}
	m := Members{}
	for name, val := range each(dec, raw) {
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%s is a duplicate member", Shown(Pointer(name)))
		}
		m[name] = val
	}
	return m, rest(dec, raw)
}

// FirstMember returns the first value of a named member of an object, or nil. It identifies the owner of a message
// before the message is decoded.
func FirstMember(raw []byte, name string) json.RawMessage {
	dec := shallow(raw)
	if dec.PeekKind() != '{' {
		return nil
	}
	for n, val := range each(dec, raw) {
		if n == name {
			return val
		}
	}
	return nil
}

// Read decodes a member by the rule of [Decode]. If the member is absent, v does not change.
func (m Members) Read(name string, v any) error {
	raw, ok := m[name]
	if !ok {
		return nil
	}
	if !slices.Contains(identifiers, name) {
		raw = codec.ReplaceLoneSurrogates(raw)
	}
	return decodeAt(Pointer(name), raw, v)
}

// Elements splits an array member. The values share its memory and are not validated. Absent and null are an empty
// list, because servers in Go may write null.
func (m Members) Elements(name string) ([]json.RawMessage, error) {
	raw := m[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	dec := shallow(raw)
	if dec.PeekKind() != '[' {
		return nil, fmt.Errorf("%s is not an array", Pointer(name))
	}
	var all []json.RawMessage
	for _, val := range each(dec, raw) {
		all = append(all, val)
	}
	return all, rest(dec, raw)
}

func shallow(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// each yields the values of the next object or array, up to its end or the first fault, which [rest] reports.
func each(dec *jsontext.Decoder, raw []byte) func(yield func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		begin, err := dec.ReadToken()
		object := begin.Kind() == '{'
		for kind := dec.PeekKind(); err == nil && kind != '}' && kind != ']' && kind != 0; kind = dec.PeekKind() {
			name := ""
			if object {
				token, err := dec.ReadToken()
				if err != nil {
					return
				}
				name = token.String()
			}
			val, err := dec.ReadValue()
			end := int(dec.InputOffset())
			if err != nil || !yield(name, raw[end-len(val):end:end]) {
				return
			}
		}
	}
}

// rest reads the end of the value that [each] iterated over. Nothing may follow it.
func rest(dec *jsontext.Decoder, raw []byte) error {
	if end, err := dec.ReadToken(); err != nil || end.Kind() != '}' && end.Kind() != ']' ||
		len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("not valid JSON")
	}
	return nil
}
