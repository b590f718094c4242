// Package scalar encodes times, spans and JSON for the durable stores. Its API has no compatibility guarantee, but it can
// always decode values that an earlier version has encoded.
package scalar

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Nanos encodes a time as Unix nanoseconds. The zero time is encoded as 0. Times after the year 2262, such as the expiry
// of a token, become the last time that can be encoded.
func Nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
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

// Requests encodes operators' requests as a JSON object. It returns "" for an empty map.
func Requests(requests map[store.RequestKind]store.Request) string {
	if len(requests) == 0 {
		return ""
	}
	b, _ := json.Marshal(requests) // the JSON in them was encoded by this module
	return string(b)
}

// ParseRequests decodes requests encoded by [Requests].
func ParseRequests(text string) (requests map[store.RequestKind]store.Request, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &requests)
	return requests, err
}

// Report encodes a report as a JSON object. It returns "" for nil.
func Report(r *store.Report) string {
	if r == nil {
		return ""
	}
	b, _ := json.Marshal(r) // cannot fail: the times come from clocks
	return string(b)
}

// ParseReport decodes a report encoded by [Report].
func ParseReport(text string) (r *store.Report, err error) {
	if text == "" {
		return r, nil
	}
	err = json.Unmarshal([]byte(text), &r)
	return r, err
}

// ParseInto sets the fields of a subscription that [Spans], [Requests] and [Report] have encoded.
func ParseInto(sub *store.Subscription, settled, requests, report string) (err error) {
	if sub.Progress.Settled, err = ParseSpans(settled); err != nil {
		return fmt.Errorf("positions of %s: %w", sub.ID, err)
	}
	if sub.Requests, err = ParseRequests(requests); err != nil {
		return fmt.Errorf("requests of %s: %w", sub.ID, err)
	}
	if sub.Report, err = ParseReport(report); err != nil {
		return fmt.Errorf("report of %s: %w", sub.ID, err)
	}
	return nil
}

// Bytes returns b, or an empty slice if b is nil, because nil would be stored as NULL or omitted.
func Bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
