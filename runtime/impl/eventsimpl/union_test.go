package eventsimpl_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// The types below have the shape that the generator gives them.

type Method struct{ Value MethodVariant }

type MethodVariant interface{ isMethod() }

// Card carries its tag as a const member.
type Card struct {
	Type   string `json:"type"`
	Number string `json:"number"`
}

// Bank does not carry its tag.
type Bank struct {
	IBAN string `json:"iban"`
	Fee  *int64 `json:"fee,omitzero"`
}

type MethodUnknown struct{ Raw json.RawMessage }

func (*Card) isMethod()          {}
func (*Bank) isMethod()          {}
func (*MethodUnknown) isMethod() {}

func (v *Bank) UnmarshalJSON(data []byte) error {
	return eventsimpl.DecodeStruct(data, v)
}

func (v Bank) MarshalJSON() ([]byte, error) {
	return eventsimpl.EncodeStruct(v)
}

var methodUnion = eventsimpl.Union[MethodVariant]{
	Property: "type",
	Variants: map[string]func() MethodVariant{
		"card": func() MethodVariant { return new(Card) },
		"bank": func() MethodVariant { return new(Bank) },
	},
	Unknown: func(raw json.RawMessage) MethodVariant { return &MethodUnknown{Raw: raw} },
}

func (v *Method) UnmarshalJSON(data []byte) error { return methodUnion.Decode(data, &v.Value) }

func (v Method) MarshalJSON() ([]byte, error) { return methodUnion.Encode(v.Value) }

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := codec.Encode(v)
	if err != nil {
		t.Fatalf("encode %+v: %v", v, err)
	}
	return string(data)
}

func TestUnionKeepsUnknownVariantsRaw(t *testing.T) {
	for _, text := range []string{`{"type":"cash","amount":1.50}`, `{"type":7}`, `{"kind":"card"}`, `{"Type":"card"}`} {
		m := decode[Method](t, text)
		if u, ok := m.Value.(*MethodUnknown); !ok || string(u.Raw) != text {
			t.Errorf("%s became %#v", text, m.Value)
		}
		if got := encode(t, m); got != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
}

// An Order has a union in each place in which a member can have one.
type Order struct {
	Method  *Method                   `json:"method,omitzero"`
	Methods []Method                  `json:"methods,omitzero"`
	ByName  map[string]Method         `json:"byName,omitzero"`
	Maybe   events.Optional[[]Method] `json:"maybe,omitzero"`
}

func (v *Order) UnmarshalJSON(data []byte) error { return eventsimpl.DecodeStruct(data, v) }

func (v Order) MarshalJSON() ([]byte, error) { return eventsimpl.EncodeStruct(v) }

// A union within another value is written as it was read, and the pointer of an error leads into it.
func TestUnionWithin(t *testing.T) {
	const text = `{"method":{"type":"card","number":"4"},"methods":[{"type":"bank","iban":"DE"},{"type":"cash","n":1.50}],` +
		`"byName":{"x":{"type":"bank","iban":"FR","fee":2}},"maybe":[{"type":"card","number":""}]}`
	if got := encode(t, decode[Order](t, text)); got != text {
		t.Errorf("got %s\nwant %s", got, text)
	}
	if v := decode[Order](t, `{"methods":[{"type":"bank","iban":"x","fee":70E-1}]}`); *v.Methods[0].Value.(*Bank).Fee != 7 {
		t.Errorf("got %+v", v)
	}
	for _, c := range []struct{ text, pointer, message string }{
		{`{"methods":[{"type":"bank","iban":"x","fee":true}]}`, "/methods/0/fee", "got boolean, want integer"},
		{`{"method":[]}`, "/method", "got array, want object"},
		{`{"method":{"type":"card","type":"bank"}}`, "/method/type", "duplicate object member name"},
	} {
		var de *events.DecodeError
		if err := new(Order).UnmarshalJSON([]byte(c.text)); !errors.As(err, &de) || de.Pointer != c.pointer || !strings.Contains(de.Err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q: %s", c.text, err, c.pointer, c.message)
		}
	}
}

func TestUnionWritesItsTag(t *testing.T) {
	for _, c := range []struct {
		in   MethodVariant
		want string
	}{
		{&Bank{IBAN: "DE"}, `{"type":"bank","iban":"DE"}`},
		{&Card{Number: "4"}, `{"type":"card","number":"4"}`},
		{&Card{Type: "card", Number: "4"}, `{"type":"card","number":"4"}`},
		{nil, `null`},
	} {
		if got := encode(t, Method{c.in}); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got, err := codec.Encode(Method{&Card{Type: "bank"}}); err == nil {
		t.Errorf("a card tagged as bank is written as %s", got)
	}
}

func TestUnionOfNull(t *testing.T) {
	m := Method{Value: &Card{}}
	if err := json.Unmarshal([]byte("null"), &m); err != nil || m.Value != nil {
		t.Errorf("got %#v, %v", m.Value, err)
	}
}

type Shape interface{ isShape() }

type Circle struct {
	Version int64   `json:"version"`
	R       float64 `json:"r"`
}

type Square struct {
	Kind string  `json:"kind"`
	A    float64 `json:"a"`
}

func (Circle) isShape() {}
func (Square) isShape() {}

func TestUnionOfLiterals(t *testing.T) {
	u := eventsimpl.Union[Shape]{Property: "version", Literal: true, Variants: map[string]func() Shape{
		"1": func() Shape { return new(Circle) },
	}}
	for _, text := range []string{`{"version":1,"r":2}`, `{"version":1.0,"r":2}`} {
		var s Shape
		if err := u.Decode([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got, err := u.Encode(s); err != nil || string(got) != `{"version":1,"r":2}` {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if got, err := u.Encode(Circle{R: 2}); err != nil || string(got) != `{"version":1,"r":2}` {
		t.Errorf("an unset tag: got %s, %v", got, err)
	}
	if got, err := u.Encode(Circle{Version: 3}); err == nil {
		t.Errorf("another tag: got %s", got)
	}
}

func TestUnionWithoutUnknown(t *testing.T) {
	u := eventsimpl.Union[Shape]{Property: "kind", Variants: map[string]func() Shape{
		"square": func() Shape { return new(Square) }, "box": func() Shape { return new(Square) },
	}}
	var s Shape
	for text, pointer := range map[string]string{`{}`: "", `{"kind":"round"}`: "/kind", `{"kind":"box","a":"x"}`: "/a", `"box"`: ""} {
		var de *events.DecodeError
		if err := u.Decode([]byte(text), &s); !errors.As(err, &de) || de.Pointer != pointer {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, err := u.Encode(Square{Kind: "box"}); err != nil || string(got) != `{"kind":"box","a":0}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := u.Encode(&Square{}); err == nil {
		t.Errorf("two tags share the type and none is set, yet it is written as %s", got)
	}
	if got, err := u.Encode(Circle{}); err == nil {
		t.Errorf("no variant, yet it is written as %s", got)
	}
}
