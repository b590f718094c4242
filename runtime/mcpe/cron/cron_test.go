package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/cron"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// runs lists the times after from, as "01-02 15:04:05 MST".
func runs(t testing.TB, expression, zoneName, from string, n int) string {
	t.Helper()
	s, err := cron.Parse(expression)
	if err != nil {
		t.Fatal(err)
	}
	loc := zone(t, zoneName)
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for range n {
		next := s.Next(at, loc)
		if !next.After(at) {
			t.Fatalf("%s: %v does not follow %v", expression, next, at)
		}
		at = next
		all = append(all, at.In(loc).Format("01-02 15:04:05 MST"))
	}
	return strings.Join(all, ", ")
}

// MCPE-DEL-2: fields, seconds, names, ranges, steps, presets.
func TestNext(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"30 9 * * *", "01-15 09:30:00 UTC, 01-16 09:30:00 UTC"},
		{"*/20 * * * *", "01-15 00:20:00 UTC, 01-15 00:40:00 UTC"},
		{"10/20 * * * *", "01-15 00:10:00 UTC, 01-15 00:30:00 UTC"},
		{"*/30 * * * * *", "01-15 00:00:30 UTC, 01-15 00:01:00 UTC"},
		{"15,45 1-2 * * *", "01-15 01:15:00 UTC, 01-15 01:45:00 UTC"},
		{"0 9 * * MON-Fri", "01-15 09:00:00 UTC, 01-16 09:00:00 UTC"},
		{"0 9 * * 7", "01-18 09:00:00 UTC, 01-25 09:00:00 UTC"},
		{"0 9 * * 5-7", "01-16 09:00:00 UTC, 01-17 09:00:00 UTC"},
		{"0 0 1 feb,APR *", "02-01 00:00:00 UTC, 04-01 00:00:00 UTC"},
		{"0 0 13 * fri", "01-16 00:00:00 UTC, 01-23 00:00:00 UTC"},
		{"0 0 29 2 *", "02-29 00:00:00 UTC, 02-29 00:00:00 UTC"},
		{"@hourly", "01-15 01:00:00 UTC, 01-15 02:00:00 UTC"},
		{"@daily", "01-16 00:00:00 UTC, 01-17 00:00:00 UTC"},
		{"@weekly", "01-18 00:00:00 UTC, 01-25 00:00:00 UTC"},
		{"@monthly", "02-01 00:00:00 UTC, 03-01 00:00:00 UTC"},
		{"@yearly", "01-01 00:00:00 UTC, 01-01 00:00:00 UTC"},
		{" @Annually ", "01-01 00:00:00 UTC, 01-01 00:00:00 UTC"},
	} {
		if got := runs(t, c.expression, "UTC", "2026-01-15T00:00:00Z", 2); got != c.want {
			t.Errorf("%s: %s, want %s", c.expression, got, c.want)
		}
	}
}

// MCPE-DEL-2: daylight saving on real zones. A time in the spring gap runs once, one in the autumn
// overlap runs once; what runs every hour follows the hours that pass.
func TestDaylightSaving(t *testing.T) {
	for _, c := range []struct{ name, expression, zone, from, want string }{
		{"gap", "30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "03-28 02:30:00 CET, 03-29 03:30:00 CEST, 03-30 02:30:00 CEST"},
		{"gap, America", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "03-08 03:30:00 EDT, 03-09 02:30:00 EDT, 03-10 02:30:00 EDT"},
		{"gap, several", "*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-29 03:00:00 CEST, 03-29 03:30:00 CEST, 03-30 02:00:00 CEST"},
		{"gap, with its successor", "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-29 03:00:00 CEST, 03-30 02:00:00 CEST, 03-30 03:00:00 CEST"},
		{"gap at midnight", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "09-06 01:00:00 -03, 09-07 00:00:00 -03, 09-08 00:00:00 -03"},
		{"overlap", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "10-25 02:30:00 CEST, 10-26 02:30:00 CET, 10-27 02:30:00 CET"},
		{"overlap, America", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "11-01 01:30:00 EDT, 11-02 01:30:00 EST, 11-03 01:30:00 EST"},
		{"overlap of half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00:00Z", "04-05 01:45:00 +11, 04-06 01:45:00 +1030, 04-07 01:45:00 +1030"},
		{"gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z", "10-04 02:45:00 +11, 10-05 02:15:00 +11, 10-06 02:15:00 +11"},
		{"hourly through the gap", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "03-29 01:30:00 CET, 03-29 03:30:00 CEST, 03-29 04:30:00 CEST"},
		{"hourly through the overlap", "30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "10-25 02:30:00 CEST, 10-25 02:30:00 CET, 10-25 03:30:00 CET"},
		{"no saving", "30 2 * * *", "Asia/Tokyo", "2026-03-28T12:00:00Z", "03-29 02:30:00 JST, 03-30 02:30:00 JST, 03-31 02:30:00 JST"},
		// Samoa had no December 30; its run comes when the clock has been set forward by a day.
		{"a day that does not exist", "0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "12-29 12:00:00 -10, 12-31 12:00:00 +14, 01-01 12:00:00 +14"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runs(t, c.expression, c.zone, c.from, 3)
			if got != c.want {
				t.Errorf("%s in %s: %s, want %s", c.expression, c.zone, got, c.want)
			}
		})
	}
}

// MCPE-TOOL-6: what is refused, hostile input included.
func TestParseRefuses(t *testing.T) {
	for _, expression := range []string{
		"", " ", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8",
		"-1 * * * *", "5-1 * * * *", "*/0 * * * *", "*/ * * * *", "a * * * *", "1,,2 * * * *", "1- * * * *", "1-2-3 * * * *",
		"99999999999999999999 * * * *", "*/99999999999999999999 * * * *", "+1 * * * *", "0x1 * * * *", "١ * * * *", "L * * * *", "? ? ? ? ?",
		"* * 30 2 *", "* * 31 feb,apr,jun *", "@every 1s", "@reboot", "@", "TZ=UTC * * * * *", "* * * * *; rm -rf /", "$(id) * * * *",
		"*\n* * * *", "*\x00 * * * *", strings.Repeat("1,", 200) + "1 * * * *", strings.Repeat("@", 10_000),
	} {
		if s, err := cron.Parse(expression); err == nil {
			t.Errorf("%q is accepted: %+v", expression, s)
		}
	}
}

// No time that fits lies between two that Next gives: it gives the same whatever it starts from.
func TestNextSkipsNothing(t *testing.T) {
	loc := zone(t, "Europe/Berlin")
	for _, expression := range []string{"7-59/13 */5 * * *", "0 8-18/2 1,15 * 1-5", "30 2 * 3,10 *", "59 23 28-31 * *"} {
		s, err := cron.Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
		for next := from; next.Before(from.AddDate(0, 0, 5)); {
			at := next
			next = s.Next(at, loc)
			for ; at.Before(next) && at.Before(from.AddDate(0, 0, 6)); at = at.Add(3 * time.Minute) {
				if got := s.Next(at, loc); !got.Equal(next) {
					t.Fatalf("%s: %v follows %v, not %v", expression, got, at, next)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range []string{"* * * * *", "*/5 1-3 1,2 jan mon", "0 0 29 2 *", "@daily"} {
		f.Add(e)
	}
	at := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	loc := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, e string) {
		s, err := cron.Parse(e)
		if err != nil {
			return
		}
		if next := s.Next(at, loc); !next.After(at) || next.Sub(at) > 9*366*24*time.Hour {
			t.Errorf("%q: %v", e, next)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	s, _ := cron.Parse("* * 0-22 * * *")
	loc := zone(b, "Europe/Berlin")
	at := time.Date(2026, 3, 29, 0, 59, 59, 0, time.UTC)
	for b.Loop() {
		s.Next(at, loc)
	}
}

func ExampleParse() {
	s, err := cron.Parse("30 9 * * mon-fri")
	if err != nil {
		panic(err)
	}
	friday := time.Date(2026, 1, 16, 12, 0, 0, 0, time.UTC)
	fmt.Println(s.Next(friday, time.UTC).Format(time.RFC1123))
	// Output: Mon, 19 Jan 2026 09:30:00 UTC
}
