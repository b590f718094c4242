package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// list returns a response with two rows of a verb's list, in which each text has n characters. From 300 on, that includes times and IDs.
func list(v *Verb, n int) string {
	row := map[string]any{"attempts": 7, "host": strings.Repeat("h", n), "url": strings.Repeat("é", n), "requests": []any{}, "tookMs": 1234.5, "p95Ms": 1234.5, "p50Ms": 1234.5,
		"eventId": "evt_" + strings.Repeat("1", max(32, n)), "status": 503, "state": "unreadable", "category": "http_5xx", "lastError": "http_5xx", "verb": "endreplay"}
	for _, name := range v.columns {
		switch {
		case row[name] != nil:
		case isTime(name) && n < 300:
			row[name] = "2026-01-02T03:04:05.123456789Z"
		case (name == "id" || name == "subscription") && n < 300:
			row[name] = "sub_" + strings.Repeat("0f", 16)
		default:
			row[name] = strings.Repeat("x", n)
		}
	}
	for _, name := range []string{"subscriptions", "suspended", "paused", "failing", "behind", "accepted", "waiting", "failed", "total", "number", "bytes", "position", "head", "perMinute", "streams", "pollers", "webhooks"} {
		row[name] = 12345
	}
	if v.path == "types/%s/occurrences/%s" {
		row["attempts"] = []any{map[string]any{"at": "2026-01-02T03:04:05.123456789Z", "category": "http_5xx", "status": 503}}
	}
	rows := []any{row, row}
	of := v.list
	if of == "rows" { // of latency
		of = "endpoints"
	}
	b, _ := json.Marshal(map[string]any{of: rows, "since": "2026-01-02T03:04:05.123456789Z", "until": "2026-01-02T03:04:05.123456789Z"})
	return string(b)
}

// TestTables expects each table to be at most 120 characters wide, with times in one form that are never cut, and
// --format json to print the responses unchanged.
func TestTables(t *testing.T) {
	for _, v := range Verbs {
		name := v.name()
		if v.list == "" {
			continue
		}
		args := make([]string, len(v.args()))
		for i := range args {
			args[i] = fmt.Sprint(i)
		}
		for _, n := range []int{3, 40, 300} {
			answer := list(&v, n)
			s := serveAlways(t, answer)
			run := func(asJSON bool) string {
				o := Options{URL: s.URL, Verb: name, Args: args, JSON: asJSON}
				if name == "events" {
					o.From = map[string]string{"since": "1h"}
				}
				var out bytes.Buffer
				o.Stdout = &out
				if err := Run(t.Context(), o); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return out.String()
			}
			if got := run(true); got != answer+"\n" {
				t.Errorf("%s as JSON: %s", name, got)
			}
			text := run(false)
			for line := range strings.Lines(text) {
				if w := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); w > 120 {
					t.Errorf("%s: a line of %d characters: %s", name, w, line)
				}
			}
			if strings.Contains(text, "T03:04") || strings.Count(text, "2026-01-02") != strings.Count(text, "2026-01-02 03:04:05Z") {
				t.Errorf("%s: a time has another form:\n%s", name, text)
			}
			if strings.Contains(text, "sub_0f0f0f0f0") {
				t.Errorf("%s: an ID is not shortened:\n%s", name, text)
			}
			if id := "evt_" + strings.Repeat("1", 32); n == 3 && strings.Contains(answer, id) && strings.Contains(text, "evt_") && !strings.Contains(text, id) {
				t.Errorf("%s: an event id of usual size is cut:\n%s", name, text)
			}
		}
	}
}
