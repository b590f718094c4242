package scalar

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Values in stores today must stay readable for ever.
func TestForms(t *testing.T) {
	at := time.Unix(1_700_000_000, 5)
	if n := Nanos(at); n != 1_700_000_000_000_000_005 || !Time(n).Equal(at) {
		t.Errorf("%v is kept as %d and read as %v", at, n, Time(n))
	}
	century := at.AddDate(100, 0, 0)
	if far := Time(Nanos(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))); far.Before(century) {
		t.Errorf("the year 9999 is read as %v", far)
	}
	if n := Nanos(time.Time{}); n != 0 || !Time(0).IsZero() {
		t.Errorf("the zero time is kept as %d and read as %v", n, Time(0))
	}
	for text, spans := range map[string][]store.Span{"[]": nil, "[[3,3],[5,9007199254740993]]": {{From: 3, To: 3}, {From: 5, To: 9007199254740993}}} {
		if got := Spans(spans); got != text {
			t.Errorf("%v is kept as %s", spans, got)
		}
		if got, err := ParseSpans(text); err != nil || !slices.Equal(got, spans) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	if _, err := ParseSpans("[[1]"); err == nil {
		t.Error("damaged spans are read")
	}
	full := &store.Report{At: at.UTC(), Owner: "host/1", LastErrorAt: at.UTC(), LastStatus: 401, NextAt: at.UTC(), LostAt: at.UTC(), Held: store.HeldLimited,
		Sending: 2, Abandoned: store.HourCount{Slice: 2_833_333, Counts: [6]uint32{3, 0, 1}}}
	const now = `"2023-11-14T22:13:20.000000005Z"`
	for text, r := range map[string]*store.Report{"": nil, `{"at":` + now + `}`: {At: at.UTC()},
		`{"at":` + now + `,"owner":"host/1","lastErrorAt":` + now + `,"lastStatus":401,"nextAt":` + now + `,"lostAt":` + now +
			`,"held":"limited","sending":2,"abandoned":{"slice":2833333,"counts":[3,0,1,0,0,0]}}`: full} {
		if got := Report(r); got != text {
			t.Errorf("%+v is kept as %s", r, got)
		}
		if got, err := ParseReport(text); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	if _, err := ParseReport("{"); err == nil {
		t.Error("a damaged report is read")
	}
	if Bytes(nil) == nil {
		t.Error("nil stays nil")
	}
}
