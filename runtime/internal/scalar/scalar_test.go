package scalar

import (
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
	if Bytes(nil) == nil {
		t.Error("nil stays nil")
	}
}
