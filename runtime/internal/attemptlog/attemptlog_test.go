package attemptlog

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

func sample() []operator.Attempt {
	return []operator.Attempt{
		{EventID: "evt_1", Event: "ping", Position: 1<<63 + 9, Number: 1, At: time.Unix(5, 7), Took: time.Second, Category: "timeout", NextAt: time.Unix(10, 0)},
		{EventID: "", Event: "ö\x00", Number: 5, At: time.Unix(0, 1), Status: 503, Category: "http_5xx"},
		{EventID: "evt_2", Event: "ping", Number: 2, At: time.Unix(9, 0), Status: 200, AskedBy: "operator"},
		{EventID: "evt_2", Event: "ping", Number: 3, At: time.Unix(9, 0), Status: 200, AskedBy: "ol\x00ga"},
	}
}

func TestRoundTrip(t *testing.T) {
	got, err := Decode(Encode(sample()))
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Data in another format are rejected.
func TestOtherForm(t *testing.T) {
	b := Encode(sample())
	b[0]++
	if got, err := Decode(b); !errors.Is(err, ErrMalformed) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLatest(t *testing.T) {
	all := sample()
	got, err := Latest([][]byte{Encode(all[2:]), Encode(all[:2])}, 2)
	if want := []operator.Attempt{all[3], all[2]}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Data that a disk has changed cause an error and never a panic.
func FuzzDecode(f *testing.F) {
	whole := Encode(sample())
	f.Add(whole)
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := Decode(b); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	})
}
