package admin_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// TestActivity: the last hour is on the overview, the page of an event type and that of a host, as JSON, and hidden
// from whom Authorize does not let see it.
func TestActivity(t *testing.T) {
	w := newWorld(t)
	if a := w.ask("GET", "/", ""); !strings.Contains(a.body, "No attempts, and nothing is behind.") || strings.Contains(a.body, "<svg") {
		t.Errorf("an overview without attempts: %s", a.body)
	}
	w.subscribe("ann", "/a")
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	type activity struct {
		Hour struct {
			At                 time.Time
			Attempts, Failures int
			P50Ms, P99Ms       float64
		}
		Minutes []struct{ Attempts int }
	}
	host := strings.TrimPrefix(w.endpoint.URL, "http://")
	w.until("the attempt", func() bool { return get[activity](w, "/api/activity").Hour.Attempts == 1 })
	for _, q := range []string{"", "?event=ping", "?host=" + host, "?event=&host=" + strings.ToUpper(host)} {
		got := get[activity](w, "/api/activity"+q)
		if got.Hour.Attempts != 1 || got.Hour.Failures != 0 || got.Hour.P50Ms <= 0 || got.Hour.P99Ms < got.Hour.P50Ms || got.Hour.At.IsZero() || len(got.Minutes) == 0 {
			t.Errorf("%q: %+v", q, got)
		}
	}
	if got := get[activity](w, "/api/activity?host=other.test"); got.Hour.Attempts != 0 {
		t.Errorf("another host has %+v", got)
	}
	pages := []string{"/", "/types/ping", "/endpoints?host=" + host}
	for _, page := range pages {
		a := w.ask("GET", page, "")
		if n := strings.Count(a.body, `role="img"`); n != 3 || !strings.Contains(a.body, "1 attempt, of which 0 failed (0 %)") {
			t.Errorf("%s has %d charts", page, n)
		}
		if !strings.Contains(a.body, "Other processes have their own figures.") {
			t.Errorf("%s does not say whose figures these are", page)
		}
	}
	w.mu.Lock()
	w.asked, w.deny = nil, func(a admin.Action) error {
		if a.Host != "" {
			return errors.New("no hosts")
		}
		return nil
	}
	w.mu.Unlock()
	if a := w.ask("GET", pages[2], ""); a.status != 200 || strings.Contains(a.body, "The last hour") {
		t.Errorf("%d: the host's figures are shown to who may not see them", a.status)
	}
	w.isProblem("a host that may not be seen", w.ask("GET", "/api/activity?host="+host, ""), 403, "forbidden")
	w.mu.Lock()
	want := admin.Action{Verb: admin.ListSubscriptions, Host: host}
	if len(w.asked) == 0 || w.asked[len(w.asked)-1] != want {
		t.Errorf("asked for %+v", w.asked)
	}
	w.mu.Unlock()
}

// drawn are pictures of hours: what is drawn stays within the chart, as well-formed XML without scripts and styles.
func TestCharts(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := func(v int64) *int64 { return &v }
	minutes := func(count int, f func(i int, m *operator.Minute)) operator.Activity {
		a := operator.Activity{Minutes: make([]operator.Minute, count)}
		a.Whole.At = now
		for i := range a.Minutes {
			m := &a.Minutes[i]
			m.At = now.Add(time.Duration(i) * time.Minute)
			f(i, m)
			a.Whole.Attempts += m.Attempts
			a.Whole.Failures += m.Failures
			a.Whole.P50, a.Whole.P95, a.Whole.P99 = max(a.Whole.P50, m.P50), max(a.Whole.P95, m.P95), max(a.Whole.P99, m.P99)
			if m.Behind != nil {
				a.Whole.Behind = m.Behind
			}
		}
		return a
	}
	for _, c := range []struct {
		name  string
		a     operator.Activity
		words []string
		rows  int
	}{
		{"one minute", minutes(1, func(_ int, m *operator.Minute) { m.Attempts, m.P50, m.P95, m.P99 = 1, 1, 1, 1 }),
			[]string{"From 12:00 to 12:00 UTC: 1 attempt, of which 0 failed (0 %); at most 1 in a minute, at 12:00.", "99 % up to 0.1 ms"}, 1},
		{"all failed", minutes(60, func(i int, m *operator.Minute) {
			m.Attempts, m.Failures, m.P50, m.P95, m.P99 = 1_000_000, 1_000_000, time.Second, 30*time.Second, 65536*time.Millisecond
			m.Behind = n(1 << 62)
		}), []string{"60,000,000 attempts, of which 60,000,000 failed (100 %)", "95 % up to 30 s, 99 % up to 66 s", "behind by 4,611,686,018,427,387,904 entries now"}, 60},
		{"few of many failed", minutes(60, func(i int, m *operator.Minute) {
			m.Attempts, m.P50, m.P95, m.P99, m.Behind = 10_000, 12340*time.Microsecond, 99*time.Millisecond, 100*time.Millisecond, n(0)
			if i == 30 {
				m.Failures = 1
			}
		}), []string{"of which 1 failed (0.1 %)", "half of the attempts took up to 12 ms", "no subscription was behind"}, 60},
		{"held back", minutes(20, func(i int, m *operator.Minute) {
			if i%2 == 0 {
				m.Behind = n(int64(i))
			}
		}), []string{"From 12:00 to 12:19 UTC: no attempts.", "behind by 18 entries now; at most by 18, at 12:18."}, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			html, rows := admin.Draw(&c.a)
			text := strings.ReplaceAll(html, "&nbsp;", " ")
			for _, w := range c.words {
				if !strings.Contains(text, w) {
					t.Errorf("%q is not said in %s", w, text)
				}
			}
			if rows != c.rows {
				t.Errorf("%d rows, want %d", rows, c.rows)
			}
			d := xml.NewDecoder(strings.NewReader(html))
			charts := 0
			for {
				token, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				e, ok := token.(xml.StartElement)
				if !ok {
					continue
				}
				if e.Name.Local == "script" || e.Name.Local == "style" {
					t.Errorf("<%s>", e.Name.Local)
				}
				for _, a := range e.Attr {
					switch {
					case a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on"):
						t.Errorf("<%s %s>", e.Name.Local, a.Name.Local)
					case a.Name.Local == "role" && a.Value == "img":
						charts++
					case a.Name.Local == "d":
						inside(t, a.Value)
					}
				}
			}
			if charts != 3 {
				t.Errorf("%d charts", charts)
			}
		})
	}
}

// inside fails where an absolute path leaves the plot.
func inside(t *testing.T, path string) {
	t.Helper()
	if path == "M0 4H16" { // of a key
		return
	}
	path = strings.NewReplacer("M", " M ", "H", " H ", "V", " V ", "Z", " ").Replace(path)
	command, at := "", 0
	for _, f := range strings.Fields(path) {
		if strings.Contains("MHV", f) {
			command, at = f, 0
			continue
		}
		var v float64
		if _, err := fmt.Sscan(f, &v); err != nil {
			t.Fatalf("%q in %.60s", f, path)
		}
		low, high := 46.0, 338.0
		if command == "V" || command == "M" && at == 1 {
			low, high = 11, 124
		}
		if v < low || v > high {
			t.Errorf("%s%v leaves the plot", command, v)
		}
		at++
	}
}

// A host's name is somebody else's text: the page carries it as text.
func TestActivityOfHostileHost(t *testing.T) {
	w := newWorld(t)
	a := w.ask("GET", "/endpoints?host="+url.QueryEscape(`"><script>x</script>`), "")
	if a.status != 200 || strings.Contains(a.body, "<script>x") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
