package events_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

func decodeTime(text string) events.Time {
	t, err := events.ParseTime(text)
	if err != nil {
		panic(err)
	}
	return t
}

// OCC-1: a timestamp is RFC 3339 with a zone; all of its forms are read and written back as they
// were.
func TestTimeKeepsItsText(t *testing.T) {
	for text, utc := range map[string]string{
		"2026-11-20T08:00:00Z":                     "2026-11-20T08:00:00Z",
		"2026-11-20t08:00:00z":                     "2026-11-20T08:00:00Z",
		"2026-11-20T08:00:00.000Z":                 "2026-11-20T08:00:00Z",
		"2026-11-20T08:00:00.1234567890123456789Z": "2026-11-20T08:00:00.123456789Z",
		"2026-11-20T08:00:00+05:30":                "2026-11-20T02:30:00Z",
		"2026-11-20T08:00:00-00:00":                "2026-11-20T08:00:00Z",
		"2026-11-20T08:00:00.5-23:59":              "2026-11-21T07:59:00.5Z",
		"2016-12-31T23:59:60Z":                     "2017-01-01T00:00:00Z",
		"1990-12-31T15:59:60-08:00":                "1991-01-01T00:00:00Z",
		"2016-12-31T23:59:60.25Z":                  "2017-01-01T00:00:00.25Z",
		"0000-01-01T00:00:00Z":                     "0000-01-01T00:00:00Z",
		"9999-12-31T23:59:59.999999999Z":           "9999-12-31T23:59:59.999999999Z",
		"2024-02-29T00:00:00Z":                     "2024-02-29T00:00:00Z",
	} {
		got, err := events.ParseTime(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if s := got.UTC().Format(time.RFC3339Nano); s != utc {
			t.Errorf("%s is %s, want %s", text, s, utc)
		}
		if got.String() != text || encode(t, got) != `"`+text+`"` {
			t.Errorf("%s is written as %s and %s", text, got, encode(t, got))
		}
		var plain events.Time
		if err := json.Unmarshal([]byte(`"`+text+`"`), &plain); err != nil || plain.String() != text {
			t.Errorf("%s through encoding/json: %s, %v", text, plain, err)
		}
	}
}

func TestTimeRefuses(t *testing.T) {
	for _, text := range []string{
		"", "Z", "2026-11-20", "2026-11-20T08:00Z", "2026-11-20T08:00:00", "2026-11-20 08:00:00Z",
		"2026-11-20T08:00:00.Z", "2026-11-20T08:00:00,5Z", "2026-11-20T08:00:00.5", "2026-11-20T24:00:00Z",
		"2026-11-20T08:60:00Z", "2026-11-20T08:00:60Z", "2026-11-20T23:59:60+01:00", "2026-11-20T23:59:61Z",
		"2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-04-31T00:00:00Z",
		"2026-11-20T08:00:00+24:00", "2026-11-20T08:00:00+01:60", "2026-11-20T08:00:00+0100", "2026-11-20T08:00:00+01",
		"02026-11-20T08:00:00Z", "2026-11-20T08:00:00ZZ", "+026-11-20T08:00:00Z", "2026-11-2OT08:00:00Z",
	} {
		if got, err := events.ParseTime(text); err == nil {
			t.Errorf("%q is accepted as %s", text, got)
		}
	}
}

func TestNewTime(t *testing.T) {
	kolkata := time.FixedZone("IST", 5*3600+1800)
	amsterdam1900 := time.FixedZone("AMT", 1172)
	for _, c := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), "2026-11-20T08:00:00Z"},
		{time.Date(2026, 11, 20, 8, 0, 0, 120_000_000, kolkata), "2026-11-20T08:00:00.12+05:30"},
		{time.Date(1900, 1, 1, 0, 19, 32, 0, amsterdam1900), "1900-01-01T00:00:00Z"},
	} {
		got := events.NewTime(c.in)
		if got.String() != c.want || !got.Equal(c.in) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := (events.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}).String(); got != "2026-01-02T03:04:05Z" {
		t.Errorf("a literal is written as %s", got)
	}
	changed := decodeTime("2026-11-20t08:00:00z")
	changed.Time = changed.Add(time.Hour)
	if got := changed.String(); got != "2026-11-20T09:00:00Z" {
		t.Errorf("after an assignment the time is written as %s", got)
	}
}

func TestTimeIsZero(t *testing.T) {
	if !(events.Time{}).IsZero() || decodeTime("0001-01-01T00:00:00Z").IsZero() {
		t.Error("only a time that was never set is zero")
	}
	if got := decode[events.Time](t, "null"); !got.IsZero() {
		t.Errorf("null is %s", got)
	}
}

// OCC-1: a required time that was forgotten is refused at its place, by our codec and by
// encoding/json; the year 1 goes out where it was read or made on purpose.
func TestTimeNotSet(t *testing.T) {
	now := events.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	type list struct {
		At []events.Time          `json:"at"`
		By map[string]events.Time `json:"by"`
	}
	for want, v := range map[string]any{
		"":                 events.Time{},
		"/openedAt":        Incident{},
		"/parent/openedAt": Incident{OpenedAt: now, Parent: &Incident{}},
		"/at/1":            list{At: []events.Time{now, {}}},
		"/by/a~1b":         &list{By: map[string]events.Time{"a/b": {}}},
	} {
		_, err := codec.Encode(v)
		var ee *events.EncodeError
		if !errors.As(err, &ee) || ee.Pointer != want || !strings.Contains(err.Error(), "is not set") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := json.Marshal(events.Time{}); err == nil {
		t.Error("encoding/json writes a time that was never set")
	}
	if got := encode(t, Incident{OpenedAt: now, ClosedAt: &events.Time{}}); strings.Contains(got, "closedAt") {
		t.Errorf("an optional time that was never set is written: %s", got)
	}
	for _, at := range []events.Time{decodeTime("0001-01-01T00:00:00Z"), events.NewTime(time.Time{}), {Time: now.Time}} {
		if b, err := codec.Encode(at); err != nil || string(b) != `"`+at.String()+`"` {
			t.Errorf("%s, %v", b, err)
		}
	}
}

func TestTimeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402214400).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"))
		at = at.In(time.FixedZone("", rapid.IntRange(-23*60, 23*60).Draw(t, "zone")*60))
		if y := at.Year(); y < 0 || y > 9999 {
			return
		}
		made := events.NewTime(at)
		read, err := events.ParseTime(made.String())
		if err != nil || !read.Equal(at) || read.String() != made.String() {
			t.Fatalf("%v: made %s, read %s, %v", at, made, read, err)
		}
	})
}
