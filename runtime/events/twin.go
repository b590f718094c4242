package events

import (
	"reflect"
	"sync"
)

// DecodeStruct is [Decode] for the UnmarshalJSON method of a struct that v points to: it reads the
// struct's members without calling that method again.
func DecodeStruct(data []byte, v any) error {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return Decode(data, v)
}

// EncodeStruct is [Encode] for the MarshalJSON method of the struct v: it writes the struct's members
// without calling that method again.
func EncodeStruct(v any) ([]byte, error) {
	if t := twinOf(reflect.TypeOf(v)); t != nil {
		v = reflect.ValueOf(v).Convert(t).Interface()
	}
	return Encode(v)
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
