package events_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// BenchmarkOptional reads and writes a payload of ten members, half of them Optional, beside the same with
// pointers, which is the limit.
func BenchmarkOptional(b *testing.B) {
	type nested struct {
		A string  `json:"a"`
		B []int64 `json:"b"`
	}
	type optional struct {
		ID    string                    `json:"id"`
		Title string                    `json:"title"`
		Score float64                   `json:"score"`
		Open  bool                      `json:"open"`
		Tags  []string                  `json:"tags"`
		Team  events.Optional[string]   `json:"team,omitzero"`
		Count events.Optional[int64]    `json:"count,omitzero"`
		List  events.Optional[[]string] `json:"list,omitzero"`
		More  events.Optional[nested]   `json:"more,omitzero"`
		None  events.Optional[string]   `json:"none,omitzero"`
	}
	type plain struct {
		ID    string    `json:"id"`
		Title string    `json:"title"`
		Score float64   `json:"score"`
		Open  bool      `json:"open"`
		Tags  []string  `json:"tags"`
		Team  *string   `json:"team,omitzero"`
		Count *int64    `json:"count,omitzero"`
		List  *[]string `json:"list,omitzero"`
		More  *nested   `json:"more,omitzero"`
		None  *string   `json:"none,omitzero"`
	}
	text := []byte(`{"id":"evt_1","title":"a title of some length","score":0.5,"open":true,"tags":["a","b","c"],` +
		`"team":"payments","count":12,"list":["x","y"],"more":{"a":"text","b":[1,2,3,4]},"none":null}`)
	run := func(name string, fresh func() any) {
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := codec.Decode(text, fresh()); err != nil {
					b.Fatal(err)
				}
			}
		})
		v := fresh()
		if err := codec.Decode(text, v); err != nil {
			b.Fatal(err)
		}
		b.Run("encode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.Encode(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("optional", func() any { return new(optional) })
	run("pointer", func() any { return new(plain) })
}
