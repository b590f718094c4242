package codec

import (
	"reflect"
	"time"
)

// Copyable reports whether [Copy] can copy values of type t. It cannot copy maps, interfaces and functions, nor
// references in arrays and unexported fields.
func Copyable(t reflect.Type) bool { return copyable(t, true, map[reflect.Type]bool{}) }

var timeType = reflect.TypeFor[time.Time]() // its location is immutable

func copyable(t reflect.Type, exported bool, seen map[reflect.Type]bool) bool {
	if t == timeType || exported && seen[t] {
		return true
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); !copyable(f.Type, exported && f.IsExported(), seen) {
				return false
			}
		}
	case reflect.Pointer, reflect.Slice:
		seen[t] = true
		return exported && copyable(t.Elem(), true, seen)
	case reflect.Array:
		return copyable(t.Elem(), false, seen)
	case reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	}
	return true
}

// Copy returns a pointer to a copy of the value to which p points. They share no memory. The value must be a tree, as
// decoded values are.
func Copy(p any) any { return copied(reflect.ValueOf(p)).Interface() }

func copied(p reflect.Value) reflect.Value {
	c := reflect.New(p.Type().Elem())
	c.Elem().Set(p.Elem())
	separate(c.Elem())
	return c
}

// separate replaces the memory that v refers to by copies.
func separate(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				separate(f)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(copied(v))
		}
	case reflect.Slice:
		if !v.IsNil() {
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		}
		switch v.Type().Elem().Kind() {
		case reflect.Struct, reflect.Pointer, reflect.Slice:
			for i := range v.Len() {
				separate(v.Index(i))
			}
		}
	}
}
