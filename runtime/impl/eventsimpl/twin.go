package eventsimpl

import (
	"reflect"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// DecodeStruct decodes JSON for the UnmarshalJSON method of the struct that v points to, without calling that method.
// Member names are case-sensitive. Unknown members are ignored, unless a field tagged `json:",embed,unknown"` stores
// them. Duplicate names and invalid UTF-8 are errors. Integers of any size accept 1.0 and 1e2, but not 1.5. A
// json.Number preserves the text of the number, and []byte is base64. Errors are of type [*events.DecodeError].
func DecodeStruct(data []byte, v any) error {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return codec.Decode(data, v)
}

// EncodeStruct encodes the struct v for its MarshalJSON method, without calling that method. Nil slices and maps become
// [] and {}, map members are sorted, HTML is not escaped, and a json.Number preserves its text. Encoding an
// [events.Time] that was never set is an error. Errors are of type [*events.EncodeError].
func EncodeStruct(v any) ([]byte, error) {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return codec.Encode(v)
}

var twins sync.Map // from a struct type, or a pointer to one, to the same type without methods

// twinOf returns the underlying struct type of t, which has no methods. For a pointer to a struct, it returns a pointer
// to the underlying type. It returns nil for other types. Generated structs have only exported fields, so reflect can
// create the type.
func twinOf(t reflect.Type) reflect.Type {
	if twin, ok := twins.Load(t); ok {
		return twin.(reflect.Type)
	}
	var twin reflect.Type
	switch {
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		twin = reflect.PointerTo(twinOf(t.Elem()))
	case t.Kind() == reflect.Struct:
		fields := make([]reflect.StructField, t.NumField())
		for i := range fields {
			fields[i] = t.Field(i)
		}
		twin = reflect.StructOf(fields)
	default:
		return nil
	}
	twins.Store(t, twin)
	return twin
}
