package eventsimpl_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// A recursive struct whose methods are one call each.
type node struct {
	Name string   `json:"name"`
	Next *node    `json:"next,omitzero"`
	List []string `json:"list"`
}

func (v *node) UnmarshalJSON(data []byte) error { return eventsimpl.DecodeStruct(data, v) }

func (v node) MarshalJSON() ([]byte, error) { return eventsimpl.EncodeStruct(v) }

func TestStructMethods(t *testing.T) {
	var n node
	if err := json.Unmarshal([]byte(`{"name":"a","NAME":"b","next":{"name":"c"}}`), &n); err != nil {
		t.Fatal(err)
	}
	if n.Name != "a" || n.Next == nil || n.Next.Name != "c" {
		t.Errorf("decoded %+v", n)
	}
	out, err := json.Marshal(n)
	if want := `{"name":"a","next":{"name":"c","list":[]},"list":[]}`; err != nil || string(out) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
	if err := json.Unmarshal([]byte(`{"next":{"name":1}}`), &n); err == nil || err.Error() != "events: decode /next/name: got number, want string" {
		t.Errorf("%v", err)
	}
}

func BenchmarkDecodeStruct(b *testing.B) {
	data := []byte(`{"name":"a","list":["x","y"]}`)
	for b.Loop() {
		var n node
		if err := n.UnmarshalJSON(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePlain(b *testing.B) {
	type plain node
	data := []byte(`{"name":"a","list":["x","y"]}`)
	for b.Loop() {
		var n node
		if err := codec.Decode(data, (*plain)(&n)); err != nil {
			b.Fatal(err)
		}
	}
}
