package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Audience returns a canonical string for a set of targets, regardless of order and duplicates. It is a JSON array, or
// "" for nil, which means all subscriptions. Implementations of [EventLog.AppendOnce] use it to find entries (OCC-5).
func Audience(targets []string) string {
	if targets == nil {
		return ""
	}
	set := slices.Compact(slices.Sorted(slices.Values(targets)))
	if set == nil {
		set = []string{}
	}
	b, _ := json.Marshal(set) // strings can always be encoded
	return string(b)
}

// Repeats compares a repeated occurrence with the existing entry for its id and targets. It returns nil if their data,
// stored and repeated, are equal as JSON. Otherwise the error matches [events.ErrIDReused]. Numbers are equal if they
// have the same text (OCC-5).
func Repeats(at Position, stored, repeated json.RawMessage) error {
	if bytes.Equal(stored, repeated) || sameJSON(stored, repeated) {
		return nil
	}
	return fmt.Errorf("%w: the event at position %d has %d bytes of data, this one has %d", events.ErrIDReused, at, len(stored), len(repeated))
}

// sameJSON reports whether a and b are equal as JSON. Another build can order the members of an object differently.
func sameJSON(a, b json.RawMessage) bool {
	x, ok := decode(a)
	if !ok {
		return false
	}
	y, ok := decode(b)
	return ok && reflect.DeepEqual(x, y)
}

func decode(raw json.RawMessage) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // as float64, different numbers could be equal
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, err == io.EOF
}
