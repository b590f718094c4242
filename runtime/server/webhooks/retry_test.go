package webhooks

import (
	"reflect"
	"testing"
)

// HOOK-3, HOOK-5, HOOK-9: every field of Retry reaches the delivery engine.
func TestRetryReachesTheEngine(t *testing.T) {
	var r Retry
	none := r.part()
	var each func(name string, v reflect.Value)
	each = func(name string, v reflect.Value) {
		if v.Kind() == reflect.Struct {
			for f, field := range v.Fields() {
				each(name+"."+f.Name, field)
			}
			return
		}
		switch v.Kind() {
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float64:
			v.SetFloat(0.5)
		default:
			v.SetInt(7)
		}
		if reflect.DeepEqual(r.part(), none) {
			t.Errorf("%s does not reach the engine", name)
		}
		v.SetZero()
	}
	each("Retry", reflect.ValueOf(&r).Elem())
}
