package eventsimpl

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A KindUnion is the codec of a union whose variants are of different JSON types. Generated code uses it as it does
// a [Union].
type KindUnion[V any] struct {
	// String, Number, Boolean, Array and Object read a variant of that JSON type, as [Value] and [Pointer] do; nil
	// where there is none.
	String, Number, Boolean, Array, Object func(data []byte) (V, error)
	// Objects tells several variants that are objects apart, in place of Object: a *Union or a *MemberUnion.
	Objects Objects[V]
	// Unknown keeps JSON of another type, and objects that are of none of Objects. When nil such JSON is an error. The
	// type that it returns writes it back by its MarshalJSON method.
	Unknown func(raw stdjson.RawMessage) V
}

// Objects tells variants that are objects apart. It is implemented by *Union and *MemberUnion.
type Objects[V any] interface {
	// choose returns what makes the variant that an object is of; nil for none, which is an error unless such an
	// object can be kept.
	choose(data []byte, unknown bool) (func() V, error)
	// guesses reports whether what cannot be read as the chosen variant may be of none.
	guesses() bool
	// writes reports whether Encode has something to do for values of the type, to which no pointer leads.
	writes(t reflect.Type) bool
	Encode(v V) ([]byte, error)
}

// Value reads JSON into a T, which is one of the variants V.
func Value[V, T any](data []byte) (V, error) {
	var v T
	err := codec.Decode(data, &v)
	out, _ := any(v).(V)
	return out, err
}

// Pointer reads JSON into a fresh *T, which is one of the variants V.
func Pointer[V, T any](data []byte) (V, error) {
	v := new(T)
	err := codec.Decode(data, v)
	out, _ := any(v).(V)
	return out, err
}

// DecodeValue reads JSON for the UnmarshalJSON method of a variant that holds what v points to.
func DecodeValue(data []byte, v any) error { return codec.Decode(data, v) }

// EncodeValue writes v for the MarshalJSON method of a variant that holds it.
func EncodeValue(v any) ([]byte, error) { return codec.Encode(v) }

// Decode reads a value into the variant of its JSON type; null stores the zero V. Other types are kept raw.
func (u *KindUnion[V]) Decode(data []byte, into *V) error {
	read, kind := u.Object, "object"
	switch k := jsontext.Value(data).Kind(); k {
	case 'n':
		*into = *new(V)
		return nil
	case '"':
		read, kind = u.String, "string"
	case '0':
		read, kind = u.Number, "number"
	case 't', 'f':
		read, kind = u.Boolean, "boolean"
	case '[':
		read, kind = u.Array, "array"
	case '{':
		if u.Objects != nil {
			return decodeObject(u.Objects, data, into, u.Unknown)
		}
	default:
		return codec.Decode(data, new(any)) // which says what is wrong
	}
	switch {
	case read != nil:
		v, err := read(data)
		if err == nil {
			*into = v
		}
		return err
	case u.Unknown != nil:
		return keep(data, into, u.Unknown)
	}
	return &events.DecodeError{Err: fmt.Errorf("no variant is of type %s", kind)}
}

// Encode writes v; the zero V is null.
func (u *KindUnion[V]) Encode(v V) ([]byte, error) {
	rv, ok := inside(&v)
	switch {
	case !ok:
		return []byte("null"), nil
	case u.Objects != nil && u.Objects.writes(rv.Type()):
		return u.Objects.Encode(v)
	}
	return codec.Encode(any(v))
}

// A MemberUnion is the codec of a union of objects that are told apart by what is there: each variant requires a member
// that no other one has. Generated code uses it as it does a [Union].
type MemberUnion[V any] struct {
	// Variants makes a fresh pointer to a variant for the member that only this one requires.
	Variants map[string]func() V
	// Unknown keeps an object that has the member of no variant, or those of several, or that the variant cannot hold:
	// a new variant may have a member of that name. When nil such an object is an
	// error.
	Unknown func(raw stdjson.RawMessage) V
}

// Decode reads one object into a fresh variant; null stores the zero V. An object of no variant is kept raw.
func (u *MemberUnion[V]) Decode(data []byte, into *V) error {
	return decodeObject(u, data, into, u.Unknown)
}

func (u *MemberUnion[V]) choose(data []byte, unknown bool) (func() V, error) {
	var chosen func() V
	found := 0
	err := eachMember(data, func(name string, _ jsontext.Value) {
		if make := u.Variants[name]; make != nil {
			chosen = make
			found++
		}
	})
	switch {
	case err != nil:
		return nil, malformed(err)
	case found == 1:
		return chosen, nil
	case unknown:
		return nil, nil
	}
	return nil, &events.DecodeError{Err: fmt.Errorf("%d of the members that distinguish the variants are present, want one", found)}
}

func (u *MemberUnion[V]) guesses() bool { return true }

func (u *MemberUnion[V]) writes(reflect.Type) bool { return false }

// Encode writes v; the zero V is null.
func (u *MemberUnion[V]) Encode(v V) ([]byte, error) {
	if _, ok := inside(&v); !ok {
		return []byte("null"), nil
	}
	return codec.Encode(any(v))
}

// decodeObject reads an object into the variant that u chooses, or into one that unknown makes.
func decodeObject[V any](u Objects[V], data []byte, into *V, unknown func(stdjson.RawMessage) V) error {
	switch jsontext.Value(data).Kind() {
	case 'n':
		*into = *new(V)
		return nil
	case '{':
	default:
		return codec.Decode(data, new(struct{})) // which says what it got and that it wants an object
	}
	make, err := u.choose(data, unknown != nil)
	if err != nil {
		return err
	}
	if make == nil {
		return keep(data, into, unknown)
	}
	v := make()
	switch err := codec.Decode(data, any(v)); {
	case err == nil:
		*into = v
		return nil
	case unknown != nil && u.guesses():
		return keep(data, into, unknown)
	default:
		return err
	}
}

// keep stores JSON of no variant; what could not be written is an error.
func keep[V any](data []byte, into *V, unknown func(stdjson.RawMessage) V) error {
	var raw stdjson.RawMessage
	err := codec.Decode(data, &raw)
	if err == nil {
		*into = unknown(raw)
	}
	return err
}

// inside is what a variant holds, pointers followed; false where that is nothing.
func inside[V any](v *V) (reflect.Value, bool) {
	rv := reflect.ValueOf(v).Elem()
	for rv.Kind() == reflect.Interface || rv.Kind() == reflect.Pointer {
		if rv.IsNil() {
			return rv, false
		}
		rv = rv.Elem()
	}
	return rv, true
}

// encodeUnknown writes a variant that has no tag.
func encodeUnknown[V any](v V, rv reflect.Value) ([]byte, error) {
	if m, ok := any(v).(stdjson.Marshaler); ok {
		return m.MarshalJSON()
	}
	if rv.Kind() == reflect.Struct {
		if field := rv.FieldByName("Raw"); field.IsValid() && field.Type() == rawType {
			return field.Bytes(), nil
		}
	}
	return nil, &events.EncodeError{Err: fmt.Errorf("%v is not a variant", rv.Type())}
}

var rawType = reflect.TypeFor[stdjson.RawMessage]()

// eachMember calls f with each member of the object in data; the value is valid until f returns.
func eachMember(data []byte, f func(name string, value jsontext.Value)) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		f(name, value)
	}
	_, err := dec.ReadToken()
	return err
}

// malformed is an error of jsontext as a [*events.DecodeError].
func malformed(err error) error {
	if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &events.DecodeError{Pointer: string(syn.JSONPointer), Err: syn.Err}
	}
	return &events.DecodeError{Err: err}
}
