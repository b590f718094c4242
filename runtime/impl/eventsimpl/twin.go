package eventsimpl

import (
	"reflect"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// DecodeStruct reads JSON for the UnmarshalJSON method of a struct that v points to, without calling that method
// again. Member names match in their exact case and unknown ones are ignored, unless a field tagged
// `json:",embed,unknown"` keeps them; duplicate names and invalid UTF-8 are refused; integers of any size accept 1.0
// and 1e2 but not 1.5; json.Number keeps the number's text; []byte is base64. Errors are of type [*events.DecodeError].
func DecodeStruct(data []byte, v any) error {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return codec.Decode(data, v)
}

// EncodeStruct writes the struct v for its MarshalJSON method, without calling that method again: nil slices and maps
// as [] and {}, map members sorted, no HTML escaping, json.Number as it is. An [events.Time] that was never set is
// refused. Errors are of type [*events.EncodeError].
func EncodeStruct(v any) ([]byte, error) {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return codec.Encode(v)
}

var twins sync.Map // of a struct type, or a pointer to one, to the same type without its methods

// twinOf returns the struct type that t is defined as, or for a pointer a pointer to that; nil for
// others. All fields of generated structs are exported, so that the type can be written down without
// t's package.
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
