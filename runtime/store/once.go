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

// Audience returns a text that is equal for equal sets of targets, whatever their order and repeats: "" for nil,
// which is everybody, else a JSON array. Implementations of [EventLog.AppendOnce] find entries by it (OCC-5).
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

// Repeats compares an occurrence that is appended again with the entry that stands under its id and for its
// targets. It returns nil when their data, again and old, are the same JSON, else an error that matches
// [events.ErrIDReused]. Numbers are the same when their text is (OCC-5).
func Repeats(stands Position, old, again json.RawMessage) error {
	if bytes.Equal(old, again) || sameJSON(old, again) {
		return nil
	}
	return fmt.Errorf("%w: position %d has it with %d bytes, now it has %d", events.ErrIDReused, stands, len(old), len(again))
}

// sameJSON finds equal what another build may have written with its members in another order.
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
	d.UseNumber() // a float64 would find different numbers equal
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, err == io.EOF
}
