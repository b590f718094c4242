package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// SRV-8: the API and the console say what happened between two times, also that nothing did.
func TestSRV8Between(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	for i := range 3 {
		at := time.Now().Add(time.Duration(i-3) * time.Hour)
		if err := w.emit.Emit(t.Context(), payload{ID: "secret"}, events.WithID(fmt.Sprint("evt_", i)), events.WithTimestamp(at)); err != nil {
			t.Fatal(err)
		}
	}
	w.until("their deliveries", func() bool { return len(get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts) == 3 })
	type window struct {
		Occurrences []struct {
			EventID                             string
			Attempts, Accepted, Waiting, Failed int
			Data                                any
		}
		Attempts int
		Next     string
	}
	p := get[window](w, "/api/events?event=ping&since=150m&until=30m&limit=1")
	if len(p.Occurrences) != 1 || p.Occurrences[0].EventID != "evt_1" || p.Occurrences[0].Accepted != 1 || p.Occurrences[0].Data != nil || p.Next == "" || p.Attempts != 0 {
		t.Errorf("%+v", p)
	}
	if p = get[window](w, "/api/events?since=150m&until=30m&after="+p.Next); len(p.Occurrences) != 1 || p.Occurrences[0].EventID != "evt_2" || p.Next != "" {
		t.Errorf("the next page: %+v", p)
	}
	if p = get[window](w, "/api/events?since=30m"); len(p.Occurrences) != 0 || p.Attempts != 3 {
		t.Errorf("a time without events: %+v", p)
	}
	w.shows("the page", w.ask("GET", "/events?event=ping&since=150m&until=30m", ""), "evt_1", "1 accepted", "Z to 2", "Z</h2>")
	w.shows("a page", w.ask("GET", "/events?since=150m&until=30m&limit=1", ""), "Next page", "after=ping%2F2")
	w.shows("no events", w.ask("GET", "/events?event=ping&since=30m", ""), "No events of ping happened between these times.")
	w.shows("the form", w.ask("GET", "/events", ""), `name="since"`, "Times are in UTC")
	for query, code := range map[string]string{"": "bad_request", "since=x": "bad_request", "since=25:00": "bad_request", "since=1h&until=2h": "invalid", "since=1h&after=x": "invalid", "since=1h&other=1": "bad_request"} {
		w.isProblem(query, w.ask("GET", "/api/events?"+query, ""), 400, code)
	}
	w.isProblem("an unknown type", w.ask("GET", "/api/events?since=1h&event=x", ""), 404, "not_found")
	w.deny = func(a admin.Action) error {
		if a.Verb == admin.Attempts {
			return errors.New("no attempts")
		}
		return nil
	}
	w.isProblem("without attempts", w.ask("GET", "/api/events?since=1h", ""), 403, "forbidden")
}

// SRV-8: a time of today is UTC, and a time may have the form that pages show.
func TestClockTimes(t *testing.T) {
	w := newWorld(t)
	got := get[struct{ Since, Until time.Time }](w, "/api/events?since=00:00&until=00:00:01")
	if y, m, d := time.Now().UTC().Date(); !got.Since.Equal(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)) || got.Until.Sub(got.Since) != time.Second {
		t.Errorf("%+v", got)
	}
	got = get[struct{ Since, Until time.Time }](w, "/api/events?since=2026-01-02+03:04:05Z&until=2026-01-02+03:04:06Z")
	if !got.Since.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v", got)
	}
}

// SRV-8: the slowest endpoint is on top of its page, and the list of endpoints has the figures.
func TestSRV8Latency(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a?token=hidden")
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}); err != nil {
		t.Fatal(err)
	}
	w.until("the delivery", func() bool { return len(get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts) == 1 })
	host := strings.TrimPrefix(w.endpoint.URL, "http://")
	type row struct {
		Host, URL, Event string
		Timed            int
		P50Ms, P95Ms     float64
	}
	type sample struct{ Endpoints, Types []row }
	s := get[sample](w, "/api/latency")
	if len(s.Endpoints) != 1 || len(s.Types) != 1 || s.Endpoints[0].Host != host || s.Types[0].Event != "ping" || s.Endpoints[0].Timed != 1 || s.Endpoints[0].P95Ms <= 0 {
		t.Errorf("%+v", s)
	}
	if s = get[sample](w, "/api/latency?host="+host); len(s.Endpoints) != 1 || s.Endpoints[0].URL != w.endpoint.URL+"/a" {
		t.Errorf("by URL: %+v", s)
	}
	w.shows("the page", w.ask("GET", "/latency", ""), "Based on 1 recorded attempts at 1 subscriptions of all processes.", host, "ping")
	w.shows("the endpoints", w.ask("GET", "/endpoints", ""), `data-label="p95" class="number">`, `s</td>`)
	w.shows("the URLs", w.ask("GET", "/endpoints?host="+host, ""), `s</td>`, "/latency?host=")
	w.isProblem("pages", w.ask("GET", "/api/latency?after=x", ""), 400, "bad_request")
}

// SRV-8: the page of a subscription says why it is late, with the button that helps.
func TestSRV8Why(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	path := "/api/subscriptions/" + id
	if d := get[operator.Delay](w, path+"/why"); d.Reason != "" || d.Text == "" {
		t.Errorf("%+v", d)
	}
	w.shows("the page", w.ask("GET", "/subscriptions/"+id, ""), "No event is waiting.")
	if a := w.ask("POST", path+"/pause", "", key("1")); a.status != 200 {
		t.Fatal(a.body)
	}
	if d := get[operator.Delay](w, path+"/why"); d.Reason != "paused" || d.Help != "unpause" {
		t.Errorf("%+v", d)
	}
	page := w.ask("GET", "/subscriptions/"+id, "")
	w.shows("the page of a paused one", page, "An operator paused it at")
	if n := strings.Count(page.body, "/unpause"); n != 2 {
		t.Errorf("%d buttons", n)
	}
	w.isProblem("an unknown one", w.ask("GET", "/api/subscriptions/sub_x/why", ""), 404, "not_found")
}

// N18, SRV-8: the beginning of an id stands for it if no other id has it, in lists of the API, pages and actions; if
// others have it, they are named to an operator who may list them.
func TestPrefixes(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 40 {
		ids = append(ids, w.subscribe("ann", fmt.Sprint("/", i)))
	}
	slices.Sort(ids)
	unique := ids[0][:len(ids[0])-8]
	if i := get[operator.WebhookInfo](w, "/api/subscriptions/"+unique); i.ID != ids[0] {
		t.Errorf("%s is %s", unique, i.ID)
	}
	w.shows("its page", w.ask("GET", "/subscriptions/"+unique, ""), "Subscription "+ids[0])
	if a := w.ask("POST", "/api/subscriptions/"+unique+"/pause", "", key("1")); a.status != 200 || w.audit[0].Subscription != ids[0] {
		t.Errorf("%d %s", a.status, a.body)
	}
	several := ""
	for i := range ids[1:] {
		if ids[i][:5] == ids[i+1][:5] {
			several = ids[i][:5]
		}
	}
	a := w.ask("POST", "/api/subscriptions/"+several+"/pause", "", key("2"))
	w.isProblem("several", a, 409, "ambiguous")
	const most = 5 // ids that the answer names
	var matching []string
	for _, id := range ids {
		if strings.HasPrefix(id, several) {
			matching = append(matching, id)
		}
	}
	for _, id := range matching[:min(most, len(matching))] {
		if !strings.Contains(a.body, id) {
			t.Errorf("%s: it does not name %s", a.body, id)
		}
	}
	if strings.Contains(a.body, "and others") != (len(matching) > most) {
		t.Errorf("%s: %d ids match", a.body, len(matching))
	}
	w.isProblem("too short", w.ask("GET", "/api/subscriptions/sub_", ""), 409, "ambiguous")
	w.isProblem("none", w.ask("GET", "/api/subscriptions/sub_zz", ""), 404, "not_found")
	w.deny = func(a admin.Action) error {
		if a.Verb == admin.ListSubscriptions {
			return errors.New("no lists")
		}
		return nil
	}
	w.isProblem("several, of which no list may be seen", w.ask("GET", "/api/subscriptions/"+several, ""), 403, "forbidden")
}

// N18, SRV-8: a refusal says what is wrong with the token.
func TestTokenErrors(t *testing.T) {
	w := newWorld(t)
	anonymous := func(r *http.Request) { r.Header.Set("Anonymous", "yes") }
	for authorization, want := range map[string]string{"": "the operator token is missing", "Bearer x": "the operator token is wrong"} {
		a := w.ask("GET", "/api/types", "", anonymous, func(r *http.Request) { r.Header.Set("Authorization", authorization) })
		if w.isProblem(want, a, 401, "unauthenticated"); !strings.Contains(a.body, want) {
			t.Errorf("%q: %s", authorization, a.body)
		}
	}
}

// N14, N15, SRV-8: the overview begins with the failing endpoints and counts them, and a healthy subscription shows its
// last error with a time, on its page only.
func TestFailingFirst(t *testing.T) {
	w := newWorld(t)
	w.shows("no failures", w.ask("GET", "/", ""), "No subscription is failing.")
	id := w.subscribe("ann", "/a")
	w.refuse.Store(true)
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	failing := func(query string) int { return len(get[subscriptions](w, "/api/subscriptions?"+query).Subscriptions) }
	w.until("the failure", func() bool { return failing("state=failing") == 1 })
	overview := w.ask("GET", "/", "").body
	if f, types := strings.Index(overview, "Failing subscriptions: 1"), strings.Index(overview, "Event types</h2>"); f < 0 || f > types {
		t.Errorf("it is at %d, event types at %d", f, types)
	}
	w.refuse.Store(false)
	w.perform(id, "resume", "", "1")
	w.perform(id, "send", `{"eventId":"evt_1"}`, "2")
	w.until("its success", func() bool { return failing("state=failing") == 0 && failing("state=active") == 1 })
	if a := w.ask("GET", "/subscriptions", ""); strings.Contains(a.body, "HTTP 503") {
		t.Error("the list shows the error of a healthy subscription")
	}
	page := w.ask("GET", "/subscriptions/"+id, "").body
	if _, rest, _ := strings.Cut(page, "<dt>Last error</dt>"); !strings.HasPrefix(rest, "<dd>HTTP 503, <time") {
		t.Errorf("%.100s", rest)
	}
	w.deny = func(a admin.Action) error {
		if a.Verb == admin.ListSubscriptions {
			return errors.New("no lists")
		}
		return nil
	}
	if a := w.ask("GET", "/", ""); strings.Contains(a.body, "No endpoint") {
		t.Error("the overview speaks of endpoints that may not be seen")
	}
}
