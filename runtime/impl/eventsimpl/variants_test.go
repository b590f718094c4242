package eventsimpl_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// Payer is a string, a number, a boolean, a list, or one of three objects, of which two have tags.
type Payer struct{ Value PayerVariant }

type PayerVariant interface{ isPayer() }

type PayerString struct{ Value events.Time }

func (v *PayerString) UnmarshalJSON(b []byte) error { return eventsimpl.DecodeValue(b, &v.Value) }

func (v PayerString) MarshalJSON() ([]byte, error) { return eventsimpl.EncodeValue(v.Value) }

type (
	PayerNumber  int64
	PayerBoolean bool
	PayerArray   []string
	PayerUnknown struct{ Raw json.RawMessage }
)

func (PayerString) isPayer()   {}
func (PayerNumber) isPayer()   {}
func (PayerBoolean) isPayer()  {}
func (PayerArray) isPayer()    {}
func (*Card) isPayer()         {}
func (*Bank) isPayer()         {}
func (*PayerUnknown) isPayer() {}

func (v PayerUnknown) MarshalJSON() ([]byte, error) { return v.Raw, nil }

var payerUnion = eventsimpl.KindUnion[PayerVariant]{
	String: eventsimpl.Value[PayerVariant, PayerString], Number: eventsimpl.Value[PayerVariant, PayerNumber],
	Boolean: eventsimpl.Value[PayerVariant, PayerBoolean], Array: eventsimpl.Value[PayerVariant, PayerArray],
	Objects: &eventsimpl.Union[PayerVariant]{Property: "type", Variants: map[string]func() PayerVariant{
		"card": func() PayerVariant { return new(Card) },
		"bank": func() PayerVariant { return new(Bank) },
	}},
	Unknown: func(raw json.RawMessage) PayerVariant { return &PayerUnknown{Raw: raw} },
}

func (v *Payer) UnmarshalJSON(data []byte) error { return payerUnion.Decode(data, &v.Value) }

func (v Payer) MarshalJSON() ([]byte, error) { return payerUnion.Encode(v.Value) }

// Owner is a number or an object.
type Owner struct{ Value OwnerVariant }

type OwnerVariant interface{ isOwner() }

type OwnerNumber float64

func (OwnerNumber) isOwner()   {}
func (*Bank) isOwner()         {}
func (*OwnerUnknown) isOwner() {}

type OwnerUnknown struct{ Raw json.RawMessage }

func (v OwnerUnknown) MarshalJSON() ([]byte, error) { return v.Raw, nil }

var ownerUnion = eventsimpl.KindUnion[OwnerVariant]{
	Number: eventsimpl.Value[OwnerVariant, OwnerNumber], Object: eventsimpl.Pointer[OwnerVariant, Bank],
	Unknown: func(raw json.RawMessage) OwnerVariant { return &OwnerUnknown{Raw: raw} },
}

func (v *Owner) UnmarshalJSON(data []byte) error { return ownerUnion.Decode(data, &v.Value) }

func (v Owner) MarshalJSON() ([]byte, error) { return ownerUnion.Encode(v.Value) }

// Target is an object with the member email or one with the member phone.
type Target struct{ Value TargetVariant }

type TargetVariant interface{ isTarget() }

type (
	ByEmail struct {
		Email string `json:"email"`
	}
	ByPhone struct {
		Phone []string `json:"phone"`
	}
	TargetUnknown struct{ Raw json.RawMessage }
)

func (*ByEmail) isTarget()       {}
func (*ByPhone) isTarget()       {}
func (*TargetUnknown) isTarget() {}

func (v TargetUnknown) MarshalJSON() ([]byte, error) { return v.Raw, nil }

var targetUnion = eventsimpl.MemberUnion[TargetVariant]{
	Variants: map[string]func() TargetVariant{
		"email": func() TargetVariant { return new(ByEmail) },
		"phone": func() TargetVariant { return new(ByPhone) },
	},
	Unknown: func(raw json.RawMessage) TargetVariant { return &TargetUnknown{Raw: raw} },
}

func (v *Target) UnmarshalJSON(data []byte) error { return targetUnion.Decode(data, &v.Value) }

func (v Target) MarshalJSON() ([]byte, error) { return targetUnion.Encode(v.Value) }

// Q6: a value becomes the variant of its JSON type, or of its members, and is written back as it was read.
func TestVariantsByForm(t *testing.T) {
	for _, c := range []struct {
		text string
		into any
		want any
	}{
		{`"2026-01-02T03:04:05Z"`, new(Payer), PayerString{}},
		{`7`, new(Payer), PayerNumber(0)},
		{`true`, new(Payer), PayerBoolean(false)},
		{`["a","b"]`, new(Payer), PayerArray(nil)},
		{`[]`, new(Payer), PayerArray(nil)},
		{`{"type":"card","number":"4"}`, new(Payer), &Card{}},
		{`{"type":"bank","iban":"DE"}`, new(Payer), &Bank{}},
		{`{"type":"cash","amount":1.50}`, new(Payer), &PayerUnknown{}},
		{`{}`, new(Payer), &PayerUnknown{}},
		{`null`, new(Payer), nil},
		{`1.5`, new(Owner), OwnerNumber(0)},
		{`{"iban":"DE"}`, new(Owner), &Bank{}},
		{`"DE"`, new(Owner), &OwnerUnknown{}},
		{`[1, 2]`, new(Owner), &OwnerUnknown{}},
		{`false`, new(Owner), &OwnerUnknown{}},
		{`{"email":"a@example.com"}`, new(Target), &ByEmail{}},
		{`{"phone":["1"]}`, new(Target), &ByPhone{}},
		{`{"email":"a@example.com","phone":["1"]}`, new(Target), &TargetUnknown{}},
		{`{"Email":"a"}`, new(Target), &TargetUnknown{}},
		{`{"phone":[1]}`, new(Target), &TargetUnknown{}},
		{`null`, new(Target), nil},
	} {
		if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		value := reflect.ValueOf(c.into).Elem().Field(0).Interface()
		if reflect.TypeOf(value) != reflect.TypeOf(c.want) {
			t.Errorf("%s became a %T, want a %T", c.text, value, c.want)
		}
		if got := encode(t, c.into); got != compacted(t, c.text) {
			t.Errorf("%s is written as %s", c.text, got)
		}
	}
}

func compacted(t *testing.T, text string) string {
	t.Helper()
	out, err := codec.Encode(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Q6: what a variant cannot hold is an error that says where, and so is a value of no variant where none is kept.
func TestVariantsRefuse(t *testing.T) {
	strict := eventsimpl.KindUnion[OwnerVariant]{Number: ownerUnion.Number}
	closed := eventsimpl.MemberUnion[TargetVariant]{Variants: targetUnion.Variants}
	tagged := eventsimpl.KindUnion[PayerVariant]{Objects: payerUnion.Objects}
	for _, c := range []struct {
		text, pointer string
		decode        func([]byte) error
	}{
		{`"x"`, "", new(Payer).UnmarshalJSON},
		{`1.5`, "", new(Payer).UnmarshalJSON},
		{`["a",1]`, "/1", new(Payer).UnmarshalJSON},
		{`{"type":"card","number":1}`, "/number", new(Payer).UnmarshalJSON},
		{`{"type":1,"type":2}`, "", new(Payer).UnmarshalJSON},
		{`{"type":`, "", new(Payer).UnmarshalJSON},
		{``, "", new(Payer).UnmarshalJSON},
		{`{"phone":[1]}`, "/phone/0", func(b []byte) error { return closed.Decode(b, new(TargetVariant)) }},
		{`{"phone":["1"],"phone":["1"]}`, "", new(Target).UnmarshalJSON},
		{`"phone"`, "", new(Target).UnmarshalJSON},
		{`{"phone"`, "", new(Target).UnmarshalJSON},
		{`"x"`, "", func(b []byte) error { return strict.Decode(b, new(OwnerVariant)) }},
		{`{}`, "", func(b []byte) error { return closed.Decode(b, new(TargetVariant)) }},
		{`{"email":"","phone":[]}`, "", func(b []byte) error { return closed.Decode(b, new(TargetVariant)) }},
		{`{"type":"x"}`, "/type", func(b []byte) error { return tagged.Decode(b, new(PayerVariant)) }},
		{`{}`, "", func(b []byte) error { return tagged.Decode(b, new(PayerVariant)) }},
	} {
		err := c.decode([]byte(c.text))
		if de, ok := errors.AsType[*events.DecodeError](err); !ok || c.pointer != "" && de.Pointer != c.pointer {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// Q6: an object with a tag gets it among variants of other types too, and what is no variant is an error.
func TestVariantsWrite(t *testing.T) {
	if got := encode(t, Payer{&Bank{IBAN: "DE"}}); got != `{"type":"bank","iban":"DE"}` {
		t.Error(got)
	}
	if got := encode(t, Payer{(*Bank)(nil)}); got != `null` {
		t.Error(got)
	}
	if got := encode(t, Target{&ByPhone{}}); got != `{"phone":[]}` {
		t.Error(got)
	}
	if got, err := codec.Encode(Payer{PayerString{}}); err == nil {
		t.Errorf("a time that was never set is written as %s", got)
	}
}

// Q6: whatever is read is written back as the same value.
func FuzzVariants(f *testing.F) {
	for _, text := range []string{`"2026-01-02T03:04:05Z"`, `-7e1`, `true`, `["a"]`, `{"type":"card","number":"4"}`, `{"phone":["1"]}`, `{"a":1,"a":2}`, `null`, ` {} `, "\"\xab\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, of := range []func() any{func() any { return new(Payer) }, func() any { return new(Owner) }, func() any { return new(Target) }} {
			v := of()
			if err := json.Unmarshal(data, v); err != nil {
				continue
			}
			once, err := codec.Encode(v)
			if err != nil {
				t.Fatalf("%s was read and cannot be written: %v", data, err)
			}
			again := of()
			if err := json.Unmarshal(once, again); err != nil {
				t.Fatalf("%s is written as %s, which cannot be read: %v", data, once, err)
			}
			if twice, err := codec.Encode(again); err != nil || string(twice) != string(once) || reflect.TypeOf(reflect.ValueOf(v).Elem().Field(0).Interface()) != reflect.TypeOf(reflect.ValueOf(again).Elem().Field(0).Interface()) {
				t.Fatalf("%s is written as %s and then as %s: %v", data, once, twice, err)
			}
		}
	})
}
