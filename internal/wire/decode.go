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

// Decode reads raw, a document of a peer, into v by the one rule of all modes: member names count in
// their exact case, unknown members are ignored, a repeated one is refused wherever it is, and so is
// invalid UTF-8. The escape of a lone surrogate is read as U+FFFD, except in the identifiers eventId, name, cursor and
// nextCursor, where it is refused: two of them could become one. The error names the place and holds no value of the
// peer's.
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

// identifiers are the members whose text has to stay as it is.
var identifiers = []string{"eventId", "name", "cursor", "nextCursor"}

// decodeAt is [Decode] of what is at a place of a document.
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

// Members are those of an object, each value as it came.
type Members map[string]json.RawMessage

// DecodeMembers splits an object and refuses a repeated member. The values share raw's memory and are not
// looked into, so that what is wrong with one of them does not hide the others. Null is no object.
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

// FirstMember returns the value of that name in an object, the first where there are several; nil for
// none. It is for finding out whose a message is, before it is read.
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

// Read decodes a member by the rule of [Decode]; an absent one leaves v as it is.
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

// Elements splits a member that is an array; the values share its memory and are not looked into. Absent
// and null are an empty list: a server in Go writes a null.
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

// each yields what is in the object or array that comes next, up to its end or the first fault, which
// [rest] finds again.
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

// rest reads the end of what [each] has gone through, behind which nothing may follow.
func rest(dec *jsontext.Decoder, raw []byte) error {
	if end, err := dec.ReadToken(); err != nil || end.Kind() != '}' && end.Kind() != ']' ||
		len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("not valid JSON")
	}
	return nil
}
