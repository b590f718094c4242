package eventsimpl

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Union is the codec of a discriminated union. One member of the object, the tag, determines the variant. Generated
// code declares one Union for each union type. The variants implement the sealed interface V, and the JSON methods of
// the struct that contains a V call the Union.
//
// A Union must not be copied after its first use.
type Union[V any] struct {
	// Property is the name of the tag member.
	Property string
	// Variants maps each tag to a function that returns a pointer to a new variant. Two tags can share a type.
	Variants map[string]func() V
	// Unknown converts an object if its tag is absent or not in Variants. If Unknown is nil, such an object is an
	// error. The result is encoded by its MarshalJSON method or, if it has no such method, as the value of its Raw
	// field.
	Unknown func(raw stdjson.RawMessage) V
	// If Literal is true, the keys of Variants are JSON texts such as 1, true or "a". Otherwise, they are the values of
	// string tags.
	Literal bool

	once sync.Once
	tags map[reflect.Type][]string // of the pointed-to type, sorted
}

// Decode decodes an object into a new variant. Null stores the zero V. Objects with unknown tags are passed to Unknown.
func (u *Union[V]) Decode(data []byte, into *V) error { return decodeObject(u, data, into, u.Unknown) }

func (u *Union[V]) choose(data []byte, unknown bool) (func() V, error) {
	raw, found, err := u.findTag(data)
	if err != nil {
		return nil, asDecodeError(err)
	}
	tag, usable := "", false
	if found {
		tag, usable = u.variantKey(raw)
	}
	if make, ok := u.Variants[tag]; ok && usable {
		return make, nil
	}
	switch {
	case unknown:
		return nil, nil
	case !found:
		return nil, &events.DecodeError{Err: fmt.Errorf("member %q is missing", u.Property)}
	}
	return nil, &events.DecodeError{Pointer: wire.Pointer(u.Property), Err: fmt.Errorf("%s is not a known tag", codec.Clip(string(raw)))}
}

// Encode encodes v with its tag. If the encoded variant has no tag or an empty tag, Encode inserts the tag at the
// front. It returns an error if v has the tag of another variant, or if the tag is empty and the type has several tags.
// The zero V is encoded as null.
func (u *Union[V]) Encode(v V) ([]byte, error) {
	rv, ok := indirectValue(&v)
	if !ok {
		return []byte("null"), nil
	}
	if !u.encodesTag(rv.Type()) {
		return encodeUnknown(v, rv)
	}
	tags := u.tags[rv.Type()]
	data, err := codec.Encode(any(v))
	if err != nil {
		return nil, err
	}
	if jsontext.Value(data).Kind() != '{' {
		return nil, &events.EncodeError{Err: fmt.Errorf("variant %v is not an object", rv.Type())}
	}
	raw, found, err := u.findTag(data)
	if err != nil {
		return nil, err
	}
	if tag, ok := u.variantKey(raw); found && ok && slices.Contains(tags, tag) {
		return data, nil
	}
	if found && !isBlank(raw) {
		return nil, &events.EncodeError{Pointer: wire.Pointer(u.Property), Err: fmt.Errorf("tag %s does not belong to %v, want %s", codec.Clip(string(raw)), rv.Type(), strings.Join(tags, " or "))}
	}
	if len(tags) != 1 {
		return nil, &events.EncodeError{Pointer: wire.Pointer(u.Property), Err: fmt.Errorf("%v has several tags, set one of %s", rv.Type(), strings.Join(tags, ", "))}
	}
	return u.insertTag(data, tags[0], found)
}

func (u *Union[V]) guesses() bool { return false }

// encodesTag reports whether values of the type are encoded with a tag.
func (u *Union[V]) encodesTag(t reflect.Type) bool {
	u.once.Do(u.index)
	return u.tags[t] != nil
}

func (u *Union[V]) index() {
	u.tags = make(map[reflect.Type][]string, len(u.Variants))
	for tag, make := range u.Variants {
		t := reflect.TypeOf(any(make()))
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		u.tags[t] = append(u.tags[t], tag)
	}
	for _, tags := range u.tags {
		slices.Sort(tags)
	}
}

// findTag returns the raw value of the tag in the object in data.
func (u *Union[V]) findTag(data []byte) (raw jsontext.Value, found bool, err error) {
	err = forEachMember(data, func(name string, value jsontext.Value) {
		if name == u.Property {
			raw, found = value.Clone(), true
		}
	})
	return raw, found, err
}

// variantKey converts the raw value of a tag to a key of Variants.
func (u *Union[V]) variantKey(raw jsontext.Value) (string, bool) {
	if u.Literal {
		raw = raw.Clone()
		if err := raw.Canonicalize(); err != nil {
			return "", false
		}
		return string(raw), true
	}
	if raw.Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil
}

// isBlank reports whether raw is the zero value of a variant's tag field.
func isBlank(raw jsontext.Value) bool {
	switch string(raw) {
	case `""`, "0", "false", "null":
		return true
	}
	return false
}

// insertTag inserts the tag at the front of the object in data. If replace is set, it removes the existing tag.
func (u *Union[V]) insertTag(data []byte, tag string, replace bool) ([]byte, error) {
	out := append(make([]byte, 0, len(data)+len(u.Property)+len(tag)+8), '{')
	out, err := jsontext.AppendQuote(out, u.Property)
	if err != nil {
		return nil, err
	}
	out = append(out, ':')
	if u.Literal {
		out = append(out, tag...)
	} else if out, err = jsontext.AppendQuote(out, tag); err != nil {
		return nil, err
	}
	err = forEachMember(data, func(name string, value jsontext.Value) {
		if replace && name == u.Property {
			return
		}
		out, _ = jsontext.AppendQuote(append(out, ','), name) // name comes from valid JSON
		out = append(append(out, ':'), value...)
	})
	return append(out, '}'), err
}
