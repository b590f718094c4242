// Package scalar encodes times and spans for the durable stores. It makes no promise of compatibility, but it always
// reads what it has written.
package scalar

import (
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Nanos is how a caller's times are kept: Unix nanoseconds, 0 for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time is the time that [Nanos] keeps as n.
func Time(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Spans is how positions that are settled are kept: a JSON array of pairs.
func Spans(spans []store.Span) string {
	pairs := make([][2]store.Position, len(spans))
	for i, s := range spans {
		pairs[i] = [2]store.Position{s.From, s.To}
	}
	b, _ := json.Marshal(pairs) // numbers can always be encoded
	return string(b)
}

// ParseSpans reads what [Spans] has made.
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

// Bytes keeps nil from being NULL, or absent: it is the same as empty.
func Bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
