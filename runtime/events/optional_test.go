package events_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Absent, null and a value stay apart in both directions and through both codecs.
func TestOptionalHasThreeStates(t *testing.T) {
	type holder struct {
		N events.Optional[int64] `json:"n,omitzero"`
	}
	for _, c := range []struct {
		text         string
		isNull, zero bool
		value        int64
	}{
		{`{}`, false, true, 0}, {`{"n":null}`, true, false, 0}, {`{"n":0}`, false, false, 0}, {`{"n":5}`, false, false, 5},
	} {
		for name, unmarshal := range map[string]func([]byte, any) error{"Decode": codec.Decode, "encoding/json": json.Unmarshal} {
			h := holder{}
			if err := unmarshal([]byte(c.text), &h); err != nil {
				t.Fatal(err)
			}
			v, ok := h.N.Get()
			if h.N.IsNull() != c.isNull || h.N.IsZero() != c.zero || v != c.value || ok == (c.isNull || c.zero) {
				t.Errorf("%s: %s: %+v", name, c.text, h.N)
			}
			plain, err := json.Marshal(h)
			if got := encode(t, h); got != c.text || err != nil || string(plain) != c.text {
				t.Errorf("%s: %s is written as %s and %s", name, c.text, got, plain)
			}
		}
	}
	if got := events.Null[int64]().Or(7); got != 7 {
		t.Errorf("Or of null = %d", got)
	}
	if got := events.Some[int64](3).Or(7); got != 3 {
		t.Errorf("Or of a value = %d", got)
	}
}
