package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// A Time is an instant together with its original text. The text preserves the zone, precision and letter case of a
// relayed timestamp. Time is the Go type for JSON Schema's date-time. See CLI-11.
//
// The embedded time.Time has nanosecond precision. Longer fractions are preserved only in the text. A positive leap
// second is represented as the first instant of the following minute. Assigning to the embedded time.Time discards the
// text.
type Time struct {
	time.Time
	text string
}

// NewTime returns a Time for t. The text is in RFC 3339 format, with the zone of t and as many fractional digits as
// needed. If RFC 3339 cannot represent the zone, such as one with seconds in its offset, NewTime converts t to UTC.
func NewTime(t time.Time) Time {
	t = t.Round(0) // a monotonic reading means nothing to the receiver
	if _, offset := t.Zone(); offset%60 != 0 || offset <= -24*3600 || offset >= 24*3600 {
		t = t.UTC()
	}
	return Time{Time: t, text: t.Format(time.RFC3339Nano)}
}

// ParseTime parses an RFC 3339 date-time. It accepts upper or lower case t and z, a fraction of any length, and :60 at
// a leap second (23:59:60 UTC). The returned Time preserves the text.
func ParseTime(text string) (Time, error) {
	t, ok := parseRFC3339(text)
	if !ok {
		return Time{}, fmt.Errorf("events: %q is not an RFC 3339 date-time", codec.Clip(text))
	}
	return Time{Time: t, text: text}, nil
}

// String returns the original text, or the time in RFC 3339 format if the embedded time.Time was changed.
func (t Time) String() string {
	if t.text != "" {
		if of, ok := parseRFC3339(t.text); ok && of.Equal(t.Time) {
			return t.text
		}
	}
	return NewTime(t.Time).text
}

// IsZero reports whether t was never set. A parsed time is never zero, even in the year 1.
func (t Time) IsZero() bool { return t.text == "" && t.Time.IsZero() }

var errUnset = errors.New("is not set: a zero events.Time has no text to write")

var errYear = errors.New("events: year outside of 0 to 9999 cannot be written as RFC 3339")

// MarshalText returns the original text. If t was never set, it returns an error, so a forgotten required member is not
// sent as the year 1.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// AppendText appends the result of MarshalText to b.
func (t Time) AppendText(b []byte) ([]byte, error) {
	if t.IsZero() {
		return b, errUnset
	}
	text := t.String()
	if _, ok := parseRFC3339(text); !ok {
		return b, errYear
	}
	return append(b, text...), nil
}

// UnmarshalText parses text like [ParseTime].
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := ParseTime(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// MarshalJSON returns the original text as a JSON string. It returns the same errors as MarshalText.
func (t Time) MarshalJSON() ([]byte, error) {
	b, err := t.AppendText([]byte{'"'})
	if err != nil {
		return nil, err
	}
	return append(b, '"'), nil
}

// UnmarshalJSON parses a JSON string like [ParseTime]. Null sets t to the zero Time.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = Time{}
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return errors.New("a date-time is a JSON string")
	}
	return t.UnmarshalText([]byte(text))
}

// parseRFC3339 implements the grammar of RFC 3339, section 5.6, and the ranges of section 5.7. time.Parse is not
// sufficient, because it rejects lower case and leap seconds and accepts offsets of more than 24 hours.
func parseRFC3339(s string) (time.Time, bool) {
	const date = len("2006-01-02T15:04:05")
	if len(s) <= date || s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return time.Time{}, false
	}
	year, ok0 := digits(s[0:4], 0, 9999)
	month, ok1 := digits(s[5:7], 1, 12)
	day, ok2 := digits(s[8:10], 1, 31)
	hour, ok3 := digits(s[11:13], 0, 23)
	minute, ok4 := digits(s[14:16], 0, 59)
	second, ok5 := digits(s[17:19], 0, 60)
	if !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5) {
		return time.Time{}, false
	}
	if last := time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day(); day > last {
		return time.Time{}, false
	}
	nanos, rest, ok := parseFraction(s[date:])
	if !ok {
		return time.Time{}, false
	}
	zone, ok := zoneOf(rest)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, zone)
	if second == 60 {
		// The second before it must be the last of a UTC day.
		if before := t.Add(-time.Second).UTC(); before.Hour() != 23 || before.Minute() != 59 || before.Second() != 59 {
			return time.Time{}, false
		}
	}
	return t, true
}

func digits(s string, low, high int) (int, bool) {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, low <= n && n <= high
}

// parseFraction parses an optional fraction of a second, such as ".123". It returns the fraction, truncated to
// nanoseconds, and the remaining text.
func parseFraction(s string) (nanos int, rest string, ok bool) {
	if s[0] != '.' {
		return 0, s, true
	}
	i := 1
	for scale := 100_000_000; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		nanos += int(s[i]-'0') * scale
		scale /= 10
	}
	return nanos, s[i:], i > 1
}

func zoneOf(s string) (*time.Location, bool) {
	if s == "Z" || s == "z" {
		return time.UTC, true
	}
	if len(s) != len("+00:00") || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return nil, false
	}
	hours, ok1 := digits(s[1:3], 0, 23)
	minutes, ok2 := digits(s[4:6], 0, 59)
	if !ok1 || !ok2 {
		return nil, false
	}
	offset := (hours*60 + minutes) * 60
	if s[0] == '-' {
		offset = -offset
	}
	return time.FixedZone("", offset), true
}
