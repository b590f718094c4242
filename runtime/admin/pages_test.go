package admin_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
)

// SRV-8: each page can be written whatever its figures are.
func TestPagesOfAnyData(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		if err := admin.RenderPages(func(view any) { fill(r, reflect.ValueOf(view).Elem(), 0) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// fill sets the exported fields of v at random. The data of a page itself, which are at depth 1, are always there.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if !v.CanSet() || depth > 1 && r.IntN(3) == 0 {
		return
	}
	if _, ok := v.Interface().(time.Time); ok {
		v.Set(reflect.ValueOf(time.Now().Add(time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(r.Int64N(5000))
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(r.Uint64N(5000))
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.String:
		v.SetString([]string{"failing", "active", "suspended", "timeout", "http_4xx", "http://127.0.0.1/x", "push", "{}"}[r.IntN(8)])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(r, key, depth+1)
		fill(r, value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i), depth+1)
		}
	}
}
