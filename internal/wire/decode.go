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

// Decode decodes raw, a JSON value from a peer, into v. All modes use the same rules. Member names must match exactly,
// unknown members are ignored, and duplicate members and invalid UTF-8 are errors at any depth. The escape of a lone
// surrogate is decoded as U+FFFD. In the identifiers eventId, name, cursor and nextCursor, it is an error, because
// different identifiers could become equal. The error contains the location, but no values from the peer.
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

// identifiers lists the members that must not change in decoding.
var identifiers = []string{"eventId", "name", "cursor", "nextCursor"}

// decodeAt is like [Decode] for a value at the pointer base. It does not replace lone surrogates.
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

// Members contains the members of an object with their raw values.
type Members map[string]json.RawMessage

// DecodeMembers splits an object and rejects duplicate members. The values share the memory of raw. They are not
// validated, so an invalid value does not affect the others. Null is not an object.
func DecodeMembers(raw []byte) (Members, error) {
	dec := shallow(raw)
	if dec.PeekKind() != '{' {
		return nil, errors.New("not an object")
	}
	m := Members{}
	for name, val := range eachValue(dec, raw) {
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%s is a duplicate member", Shown(Pointer(name)))
		}
		m[name] = val
	}
	return m, readRest(dec, raw)
}

// FirstMember returns the value of the first member with the given name, or nil. Callers use it to find the owner of a
// message before decoding the message.
func FirstMember(raw []byte, name string) json.RawMessage {
	dec := shallow(raw)
	if dec.PeekKind() != '{' {
		return nil
	}
	for n, val := range eachValue(dec, raw) {
		if n == name {
			return val
		}
	}
	return nil
}

// Read decodes a member by the rules of [Decode]. If the member is absent, it does not change v.
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

// Elements splits an array member. The values share the array's memory and are not validated. If the member is absent
// or null, the list is empty, because a Go server may encode an empty list as null.
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
	for _, val := range eachValue(dec, raw) {
		all = append(all, val)
	}
	return all, readRest(dec, raw)
}

func shallow(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// eachValue yields the values of the next object or array. It stops at the first error, which [readRest] returns.
func eachValue(dec *jsontext.Decoder, raw []byte) func(yield func(string, json.RawMessage) bool) {
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

// readRest reads the end of the value that [eachValue] iterated over, and returns any error. Nothing may follow it.
func readRest(dec *jsontext.Decoder, raw []byte) error {
	if end, err := dec.ReadToken(); err != nil || end.Kind() != '}' && end.Kind() != ']' ||
		len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("not valid JSON")
	}
	return nil
}
