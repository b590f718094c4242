package behaviour

import (
	"encoding/json"
	"testing"

	consts "github.com/mcpe-gen/mcpe-gen/golden/consts/want"
	defaults "github.com/mcpe-gen/mcpe-gen/golden/defaults/want"
	enums "github.com/mcpe-gen/mcpe-gen/golden/enums/want"
	incidents "github.com/mcpe-gen/mcpe-gen/golden/incidents/want"
	numbers "github.com/mcpe-gen/mcpe-gen/golden/numbers/want"
	objects "github.com/mcpe-gen/mcpe-gen/golden/objects/want"
	scalars "github.com/mcpe-gen/mcpe-gen/golden/scalars/want"
	unionforms "github.com/mcpe-gen/mcpe-gen/golden/unionforms/want"
	unions "github.com/mcpe-gen/mcpe-gen/golden/unions/want"
)

func decode[T any](t *testing.T, doc string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatalf("decode %s: %v", doc, err)
	}
	return v
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A zero value is written with everything that is required, nil slices and maps as [] and {}.
func TestZeroValue(t *testing.T) {
	if got, want := encode(t, objects.ConfigChangedPayload{}), `{"labels":{},"owner":{"id":""},"ownerNullable":null,"rows":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Required constants are filled in; what was set or read is kept.
func TestConstantsAreWritten(t *testing.T) {
	want := `{"kind":"beat","version":2,"final":true,"never":false,"factor":0.5,"nullable":null}`
	if got := encode(t, consts.HeartBeatPayload{}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := encode(t, &consts.HeartBeatPayload{Kind: "other"}); got == want {
		t.Errorf("a value that was set is lost: %s", got)
	}
}

// The tag of a union is written though nobody set it.
func TestUnionTag(t *testing.T) {
	m := unions.Method{Value: &unions.Bank{Iban: "1"}}
	if got, want := encode(t, m), `{"kind":"bank","iban":"1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	lives := int64(9)
	p := unions.PaymentMadePayload{Method: m, Pet: &unions.Pet{Value: &unions.Cat{Lives: &lives}}}
	if got, want := encode(t, p), `{"method":{"kind":"bank","iban":"1"},"methodNullable":null,"pet":{"petType":"Cat","lives":9}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Variants have their types, unknown tags stay raw.
func TestUnionVariants(t *testing.T) {
	p := decode[unions.PaymentMadePayload](t, `{"method":{"kind":"card","number":"7"},"methodNullable":{"kind":"x","a":1},"numbered":{"v":1.0,"a":"z"}}`)
	if c, ok := p.Method.Value.(*unions.Card); !ok || c.Number != "7" || c.Kind != "card" {
		t.Errorf("method is %#v", p.Method.Value)
	}
	if u, ok := p.MethodNullable.Value.(*unions.MethodUnknown); !ok || string(u.Raw) != `{"kind":"x","a":1}` {
		t.Errorf("methodNullable is %#v", p.MethodNullable.Value)
	}
	if n, ok := p.Numbered.Value.(*unions.Numbered1); !ok || *n.A != "z" {
		t.Errorf("numbered is %#v", p.Numbered.Value)
	}
}

// Variants of different JSON types, or with members of their own, have their types too; anything else stays raw.
func TestUnionForms(t *testing.T) {
	p := decode[unionforms.ChargeMadePayload](t, `{"customer":"c1","customerNullable":{"id":"c2"},"status":1.0,"at":"2026-01-02T03:04:05Z","level":"high",
		"method":{"kind":"card","number":"7"},"target":{"phone":"1"},"name":["new"]}`)
	if c, ok := p.Customer.Value.(unionforms.ChargeMadePayloadCustomerString); !ok || c != "c1" {
		t.Errorf("customer is %#v", p.Customer.Value)
	}
	if c, ok := p.CustomerNullable.Value.(*unionforms.Customer); !ok || c.ID != "c2" {
		t.Errorf("customerNullable is %#v", p.CustomerNullable.Value)
	}
	if n, ok := p.Status.Value.(unionforms.CodeNumber); !ok || n != 1 {
		t.Errorf("status is %#v", p.Status.Value)
	}
	at, _ := p.At.Get()
	if v, ok := at.Value.(unionforms.ChargeMadePayloadAtString); !ok || v.Value.Year() != 2026 {
		t.Errorf("at is %#v", at.Value)
	}
	if p.Level.Value != unionforms.LevelHigh {
		t.Errorf("level is %#v", p.Level.Value)
	}
	if c, ok := p.Method.Value.(*unionforms.Card); !ok || c.Number != "7" {
		t.Errorf("method is %#v", p.Method.Value)
	}
	if v, ok := p.Target.Value.(*unionforms.ByPhone); !ok || v.Phone != "1" {
		t.Errorf("target is %#v", p.Target.Value)
	}
	if u, ok := p.Name.Value.(*unionforms.ChargeMadePayloadNameUnknown); !ok || string(u.Raw) != `["new"]` {
		t.Errorf("name is %#v", p.Name.Value)
	}
	made := unionforms.ChargeMadePayload{
		Customer: unionforms.ChargeMadePayloadCustomer{Value: &unionforms.Customer{ID: "c"}},
		Status:   unionforms.Code{Value: unionforms.CodeString("ok")},
		Method:   &unionforms.ChargeMadePayloadMethod{Value: &unionforms.Bank{Iban: "1"}},
		Off:      &unionforms.ChargeMadePayloadOff{Value: unionforms.ChargeMadePayloadOffBooleanFalse},
	}
	if got, want := encode(t, made), `{"customer":{"id":"c"},"customerNullable":null,"status":"ok","off":false,"method":{"kind":"bank","iban":"1"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEnums(t *testing.T) {
	p := decode[enums.ReactionAddedPayload](t, `{"reaction":"-1","level":1.0,"stateNullable":"new"}`)
	if p.Reaction != enums.ReactionMinus1 || !p.Reaction.Known() {
		t.Errorf("reaction is %q", p.Reaction)
	}
	if p.Level != enums.Level1 || !p.Level.Known() {
		t.Errorf("level is %d", p.Level)
	}
	if *p.StateNullable != "new" || p.StateNullable.Known() {
		t.Errorf("stateNullable is %q", *p.StateNullable)
	}
}

// Absent, null and a value of an optional and nullable member stay apart.
func TestThreeStates(t *testing.T) {
	const rest = `"text":"","textNullable":null,"flag":false,"whole":0,"ratio":0,"at":"2026-01-01T00:00:00Z","blob":"","blobNullable":null,"tags":[],"tagsNullable":null}`
	absent := decode[scalars.SampleTakenPayload](t, `{`+rest)
	null := decode[scalars.SampleTakenPayload](t, `{"textBoth":null,`+rest)
	some := decode[scalars.SampleTakenPayload](t, `{"textBoth":"x",`+rest)
	if !absent.TextBoth.IsZero() || null.TextBoth.IsZero() || !null.TextBoth.IsNull() {
		t.Error("absent and null are one")
	}
	if v, ok := some.TextBoth.Get(); v != "x" || !ok {
		t.Errorf("got %q, %v", v, ok)
	}
}

// Integers accept every notation of an integer, and no fraction.
func TestIntegers(t *testing.T) {
	for _, doc := range []string{`{"whole":100}`, `{"whole":100.0}`, `{"whole":1e2}`} {
		if v := decode[scalars.SampleTakenPayload](t, doc); v.Whole != 100 {
			t.Errorf("%s gives %d", doc, v.Whole)
		}
	}
	var v scalars.SampleTakenPayload
	if err := json.Unmarshal([]byte(`{"whole":1.5}`), &v); err == nil {
		t.Error("1.5 is taken for an integer")
	}
}

// Member names are exact: another case is an unknown member, and a duplicate is refused.
func TestExactNames(t *testing.T) {
	v := decode[incidents.IncidentCreatedPayload](t, `{"IncidentId":"1","severity":"P1","openedAt":"2026-01-01T00:00:00Z"}`)
	if v.IncidentID != "" {
		t.Errorf("IncidentId was taken for incidentId: %q", v.IncidentID)
	}
	if err := json.Unmarshal([]byte(`{"incidentId":"1","incidentId":"2"}`), &v); err == nil {
		t.Error("a duplicate member is accepted")
	}
}

// The text of a time survives.
func TestTimeText(t *testing.T) {
	v := decode[incidents.IncidentCreatedPayload](t, `{"incidentId":"1","severity":"P1","openedAt":"2026-07-28t10:00:00.10+00:00"}`)
	if v.OpenedAt.String() != "2026-07-28t10:00:00.10+00:00" || v.OpenedAt.Hour() != 10 {
		t.Errorf("openedAt is %s", v.OpenedAt)
	}
}

func TestDefaults(t *testing.T) {
	var none defaults.ListReadArguments
	if !none.RedactPIIOrDefault() || none.LimitOrDefault() != 20 || none.RatioOrDefault() != 0.25 ||
		none.OrderOrDefault() != defaults.OrderDesc || none.LevelOrDefault() != 2 || none.TextOrDefault() != "a \"b\"\n" {
		t.Errorf("defaults of %+v", none)
	}
	off, limit := false, int64(0)
	some := defaults.ListReadArguments{RedactPII: &off, Limit: &limit, Order: defaults.OrderAsc}
	if some.RedactPIIOrDefault() || some.LimitOrDefault() != 0 || some.OrderOrDefault() != defaults.OrderAsc {
		t.Errorf("values of %+v", some)
	}
	if got, want := encode(t, none), `{"required":""}`; got != want {
		t.Errorf("defaults are written: %s", got)
	}
}

// Q0: where a number is valid the type holds any number, whichever integers are listed beside it.
func TestListedNumbers(t *testing.T) {
	for _, doc := range []string{
		`{"constant":1.5}`,
		`{"constant":0,"some":4.5,"bounded":0.5,"negative":0.25,"three":2.5,"large":2.5}`,
		`{"constant":0,"item":[0,1.5],"rest":{"a":0,"b":-1.5}}`,
		`{"constant":0,"listed":2,"constants":1,"integers":7,"fractions":2.25}`,
		`{"constant":0,"exact":18446744073709551615}`,
	} {
		if got := encode(t, decode[numbers.MeasuredPayload](t, doc)); got != doc {
			t.Errorf("got %s, want %s", got, doc)
		}
	}
	if got, want := decode[numbers.MeasuredPayload](t, `{"constant":0,"large":1e300}`).Large, numbers.MeasuredPayloadLarge1e300; got == nil || *got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := encode(t, decode[numbers.MeasuredArguments](t, `{"max":1.5}`)), `{"max":1.5}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := json.Unmarshal([]byte(`{"constant":0,"integers":1.5}`), new(numbers.MeasuredPayload)); err == nil {
		t.Error("1.5 is an integer")
	}
}
