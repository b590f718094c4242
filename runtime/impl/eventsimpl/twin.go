package eventsimpl

import (
	"reflect"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// DecodeStruct decodes JSON for the UnmarshalJSON method of the struct that v points to, without calling that method.
// Member names match in their exact case and unknown ones are ignored, unless a field tagged `json:",embed,unknown"`
// keeps them; duplicate names and invalid UTF-8 are refused; integers of any size accept 1.0 and 1e2 but not 1.5;
// json.Number keeps the number's text; []byte is base64. Errors are of type [*events.DecodeError].
func DecodeStruct(data []byte, v any) error {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return codec.Decode(data, v)
}

// EncodeStruct encodes the struct v for its MarshalJSON method, without calling that method. Nil slices and maps
// become [] and {}, map members are sorted, HTML is not escaped, and a json.Number keeps its text. An [events.Time]
// that was never set is an error. Errors are of type [*events.EncodeError].
func EncodeStruct(v any) ([]byte, error) {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return codec.Encode(v)
}

var twins sync.Map // from a struct type, or a pointer to one, to the same type without methods

// twinOf returns the struct type underlying t or, for a pointer, a pointer to it. It returns nil for other types.
// Generated structs have only exported fields, so that reflect can build the type.
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
