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

// A KindUnion is the codec of a union of variants with different JSON types. Generated code uses it like a [Union].
type KindUnion[V any] struct {
	// String, Number, Boolean, Array and Object decode a variant of that JSON type, like [Value] and [Pointer]. A
	// function is nil if the union does not have such a variant.
	String, Number, Boolean, Array, Object func(data []byte) (V, error)
	// Objects is used instead of Object if several variants are objects. It is a *Union or a *MemberUnion.
	Objects Objects[V]
	// Unknown converts JSON of other types, and objects that do not match any variant. If Unknown is nil, such JSON is
	// an error. The result is encoded by its MarshalJSON method.
	Unknown func(raw stdjson.RawMessage) V
}

// Objects is the codec of variants that are objects. *Union and *MemberUnion implement it.
type Objects[V any] interface {
	// choose returns the function that creates the variant of an object. If no variant matches, it returns nil if
	// unknown is set, and an error otherwise.
	choose(data []byte, unknown bool) (func() V, error)
	// guesses reports whether an object that cannot be decoded as the chosen variant may be an unknown one.
	guesses() bool
	// writes reports whether Encode must handle values of the type, which is not a pointer.
	encodesTag(t reflect.Type) bool
	Encode(v V) ([]byte, error)
}

// Value decodes JSON into a T, which must be a variant of V.
func Value[V, T any](data []byte) (V, error) {
	var v T
	err := codec.Decode(data, &v)
	out, _ := any(v).(V)
	return out, err
}

// Pointer decodes JSON into a new *T, which must be a variant of V.
func Pointer[V, T any](data []byte) (V, error) {
	v := new(T)
	err := codec.Decode(data, v)
	out, _ := any(v).(V)
	return out, err
}

// DecodeValue decodes JSON into the value that v points to. It is called by the UnmarshalJSON method of a variant.
func DecodeValue(data []byte, v any) error { return codec.Decode(data, v) }

// EncodeValue encodes v, the value of a variant. It is called by the variant's MarshalJSON method.
func EncodeValue(v any) ([]byte, error) { return codec.Encode(v) }

// Decode decodes a value into the variant of its JSON type. Null stores the zero V. Values of other types are passed to
// Unknown.
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
		return codec.Decode(data, new(any)) // for its error
	}
	switch {
	case read != nil:
		v, err := read(data)
		if err == nil {
			*into = v
		}
		return err
	case u.Unknown != nil:
		return storeUnknown(data, into, u.Unknown)
	}
	return &events.DecodeError{Err: fmt.Errorf("no variant is of type %s", kind)}
}

// Encode encodes v, or null if v is the zero V.
func (u *KindUnion[V]) Encode(v V) ([]byte, error) {
	rv, ok := indirectValue(&v)
	switch {
	case !ok:
		return []byte("null"), nil
	case u.Objects != nil && u.Objects.encodesTag(rv.Type()):
		return u.Objects.Encode(v)
	}
	return codec.Encode(any(v))
}

// A MemberUnion is the codec of a union of objects that are distinguished by their members. Each variant requires a
// member that the other variants do not have. Generated code uses it like a [Union].
type MemberUnion[V any] struct {
	// Variants maps the member that only one variant requires to a function that returns a pointer to a new variant.
	Variants map[string]func() V
	// Unknown converts an object that does not match exactly one variant, or that cannot be decoded as the matching
	// variant. The latter may be a future variant with a member of the same name. If Unknown is nil, such an object is
	// an error.
	Unknown func(raw stdjson.RawMessage) V
}

// Decode decodes an object into a new variant. Null stores the zero V. Objects that do not match a variant are passed
// to Unknown.
func (u *MemberUnion[V]) Decode(data []byte, into *V) error {
	return decodeObject(u, data, into, u.Unknown)
}

func (u *MemberUnion[V]) choose(data []byte, unknown bool) (func() V, error) {
	var chosen func() V
	found := 0
	err := forEachMember(data, func(name string, _ jsontext.Value) {
		if make := u.Variants[name]; make != nil {
			chosen = make
			found++
		}
	})
	switch {
	case err != nil:
		return nil, asDecodeError(err)
	case found == 1:
		return chosen, nil
	case unknown:
		return nil, nil
	}
	return nil, &events.DecodeError{Err: fmt.Errorf("%d of the members that distinguish the variants are present, want one", found)}
}

func (u *MemberUnion[V]) guesses() bool { return true }

func (u *MemberUnion[V]) encodesTag(reflect.Type) bool { return false }

// Encode encodes v, or null if v is the zero V.
func (u *MemberUnion[V]) Encode(v V) ([]byte, error) {
	if _, ok := indirectValue(&v); !ok {
		return []byte("null"), nil
	}
	return codec.Encode(any(v))
}

// decodeObject decodes an object into the variant chosen by u. If u does not choose a variant, it stores the result of
// unknown.
func decodeObject[V any](u Objects[V], data []byte, into *V, unknown func(stdjson.RawMessage) V) error {
	switch jsontext.Value(data).Kind() {
	case 'n':
		*into = *new(V)
		return nil
	case '{':
	default:
		return codec.Decode(data, new(struct{})) // for its error: got one type, want object
	}
	make, err := u.choose(data, unknown != nil)
	if err != nil {
		return err
	}
	if make == nil {
		return storeUnknown(data, into, unknown)
	}
	v := make()
	switch err := codec.Decode(data, any(v)); {
	case err == nil:
		*into = v
		return nil
	case unknown != nil && u.guesses():
		return storeUnknown(data, into, unknown)
	default:
		return err
	}
}

// storeUnknown stores the result of unknown for JSON that does not match a variant. It returns an error if the JSON
// could not be re-encoded.
func storeUnknown[V any](data []byte, into *V, unknown func(stdjson.RawMessage) V) error {
	var raw stdjson.RawMessage
	err := codec.Decode(data, &raw)
	if err == nil {
		*into = unknown(raw)
	}
	return err
}

// indirectValue returns the value to which a variant's interfaces and pointers lead. It returns false for nil.
func indirectValue[V any](v *V) (reflect.Value, bool) {
	rv := reflect.ValueOf(v).Elem()
	for rv.Kind() == reflect.Interface || rv.Kind() == reflect.Pointer {
		if rv.IsNil() {
			return rv, false
		}
		rv = rv.Elem()
	}
	return rv, true
}

// encodeUnknown encodes a variant that has no tag.
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

// forEachMember calls f for each member of the object in data. Its value is valid only until f returns.
func forEachMember(data []byte, f func(name string, value jsontext.Value)) error {
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

// asDecodeError converts a jsontext error to an [*events.DecodeError].
func asDecodeError(err error) error {
	if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &events.DecodeError{Pointer: string(syn.JSONPointer), Err: syn.Err}
	}
	return &events.DecodeError{Err: err}
}
