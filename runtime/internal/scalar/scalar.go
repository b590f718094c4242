// Package scalar encodes times and spans for the durable stores. Its API has no compatibility guarantee, but it can
// always decode values that an earlier version has encoded.
package scalar

import (
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Nanos encodes a time as Unix nanoseconds. The zero time is encoded as 0.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time decodes a time encoded by [Nanos].
func Time(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Spans encodes settled positions as a JSON array of pairs.
func Spans(spans []store.Span) string {
	pairs := make([][2]store.Position, len(spans))
	for i, s := range spans {
		pairs[i] = [2]store.Position{s.From, s.To}
	}
	b, _ := json.Marshal(pairs) // numbers can always be encoded
	return string(b)
}

// ParseSpans decodes spans encoded by [Spans].
func ParseSpans(text string) (spans []store.Span, err error) {
	var pairs [][2]store.Position
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, err
	}
	for _, p := range pairs {
		spans = append(spans, store.Span{From: p[0], To: p[1]})
	}
	return spans, nil
}

// Actions encodes operators' actions as a JSON array. It returns "" for an empty slice.
func Actions(actions []store.Action) string {
	if len(actions) == 0 {
		return ""
	}
	b, _ := json.Marshal(actions) // the JSON in them was encoded by this module
	return string(b)
}

// ParseActions decodes actions encoded by [Actions].
func ParseActions(text string) (actions []store.Action, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &actions)
	return actions, err
}

// Bytes returns b, or an empty slice if b is nil, because nil would be stored as NULL or omitted.
func Bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
