package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

var actions = regexp.MustCompile(`<form method="post" action="([^"]*/act[^"]*)"`)

// action is where the page's button goes that does what the page shows.
func action(t *testing.T, page answered) string {
	t.Helper()
	found := actions.FindAllStringSubmatch(page.body, -1)
	if len(found) != 1 {
		t.Fatalf("%d buttons: %s", len(found), page.body)
	}
	return html.UnescapeString(found[0][1])
}

// shows fails unless a page of the console has all of that.
func (w *world) shows(what string, page answered, want ...string) {
	w.t.Helper()
	for _, text := range want {
		if page.status != 200 || !strings.Contains(page.body, text) {
			w.t.Errorf("%s: %d, no %s in %s", what, page.status, text, page.body)
		}
	}
}

func (w *world) paused() int {
	w.t.Helper()
	return len(get[subscriptions](w, "/api/subscriptions?state=paused").Subscriptions)
}

// SRV-8: the console shows what a filter takes and does a page of it for a press, each as an action of its own:
// authorized, and in the audit log with its actor.
func TestSRV8Many(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		w.subscribe("ann", fmt.Sprint("/a/", i))
	}
	bob := w.subscribe("bob", "/b?token=hidden")
	host := strings.TrimPrefix(w.endpoint.URL, "http://")
	page := w.ask("GET", "/act?verb=pause&host="+host, "")
	w.shows("before", page, "Subscriptions to pause", "<dd>61</dd>", "Pause 50 subscriptions<", "<h1>Pause "+host)
	if n := strings.Count(page.body, ` class="url">`); n != 50 || strings.Contains(page.body, "hidden<") {
		t.Errorf("%d are listed", n)
	}
	if w.paused() != 0 || len(w.audit) != 0 {
		t.Error("looking has done something")
	}
	first := w.ask("POST", action(t, page), "key=k1", form)
	w.shows("the first page", first, "<dt>Done or requested</dt><dd>50</dd>", "Continue with the next page")
	if n := w.paused(); n != 50 || len(w.audit) != 50 {
		t.Errorf("%d are paused, %d entries", n, len(w.audit))
	}
	for _, i := range get[subscriptions](w, "/api/subscriptions?state=paused").Subscriptions {
		w.shows("what was done", first, `href="/subscriptions/`+i.ID+`"`)
	}
	second := w.ask("POST", action(t, first), "key=k2", form)
	w.shows("the second page", second, "<dt>Done or requested</dt><dd>11</dd>", "This was the last page")
	if n := w.paused(); n != 61 || actions.MatchString(second.body) {
		t.Errorf("%d are paused; %s", n, second.body)
	}
	if e := w.audit[0]; e.Actor != "olga" || e.Verb != "pause" || e.Subscription == "" || e.Event != "ping" || e.Status != 200 || e.Key != "k1" {
		t.Errorf("%+v", e)
	}
	w.shows("when all is done", w.ask("GET", "/act?verb=pause&host="+host, ""), "There is nothing to do")
	w.shows("of a principal", w.ask("GET", "/act?verb=unpause&principal=bob", ""), "<dd>1</dd>", "Unpause 1 subscription<", bob)
	w.shows("to resume", w.ask("GET", "/act?verb=resume&all=true", ""), "There is nothing to do")

	// Each is authorized by what it is; what is refused is shown, and 20 in a row leave the rest.
	w.deny = func(a admin.Action) error {
		if a.Verb == admin.Unpause && a.Principal != "bob" {
			return errors.New("bob alone")
		}
		return nil
	}
	refused := w.ask("POST", "/act?verb=unpause&principal=ann", "key=k3", form)
	w.shows("refused", refused, "<dt>Done or requested</dt><dd>0</dd>", `<dt>Failed</dt><dd class="bad">20</dd>`, `<dt>Not started</dt><dd class="bad">30</dd>`, "this is not allowed", "20 consecutive failures")
	if w.paused() != 61 || len(w.audit) != 61 {
		t.Errorf("%d are paused, %d entries", w.paused(), len(w.audit))
	}
	w.shows("allowed", w.ask("POST", "/act?verb=unpause&principal=bob", "key=k4", form), "<dt>Done or requested</dt><dd>1</dd>")
	w.deny = func(admin.Action) error { return errors.New("no") }
	for _, a := range []answered{w.ask("GET", "/act?verb=pause&all=true", ""), w.ask("POST", "/act?verb=pause&all=true", "key=k5", form), w.ask("GET", "/act?verb=send&since=1h&all=true", "")} {
		w.isProblem("the list", a, 403, "forbidden")
	}
}

// SRV-8: an action on many needs a filter or all=true, its own parameters and a key, and comes from no other origin.
func TestSRV8ManyRefused(t *testing.T) {
	w := newWorld(t)
	w.subscribe("ann", "/a")
	before := w.state()
	for _, q := range []string{"verb=pause", "verb=pause&event=", "verb=pause&all=true&event=ping", "verb=pause&all=no", "verb=end&all=true", "all=true", "verb=pause&all=true&limit=1",
		"verb=pause&all=true&since=1h", "verb=pause&all=true&until=1h", "verb=send&all=true", "verb=replay&all=true", "verb=replay&all=true&since=1h&until=2h", "verb=replay&all=true&since=x",
		"verb=pause&all=true&other=1"} {
		w.isProblem(q, w.ask("GET", "/act?"+q, ""), 400, "bad_request")
		w.isProblem(q, w.ask("POST", "/act?"+q, "key=k", form), 400, "bad_request")
	}
	w.isProblem("no key", w.ask("POST", "/act?verb=pause&all=true", "", form), 400, "bad_request")
	if a := w.ask("POST", "/act?verb=pause&failing=true&after=x", "key=k2", form); a.status != 400 || !strings.Contains(a.body, "after is not a page cursor") {
		t.Errorf("a page cursor: %d %s", a.status, a.body)
	}
	other := func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") }
	w.isProblem("another origin", w.ask("POST", "/act?verb=pause&all=true", "key=k", form, other), 403, "cross_origin")
	if after := w.state(); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

type givenUp struct {
	Abandoned []struct {
		Subscription, Principal, URL string
		Attempt                      struct {
			EventID, Event, Category string
			At                       time.Time
			TookMs                   *float64
		}
	}
	Next string
}

// E6, SRV-8: what was given up is listed, and sent again by a loop of the API and by the console: once, whoever has
// seen it.
func TestSRV8SendWhatWasGivenUp(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a?token=hidden")
	w.refuse.Store(true)
	for i := range 2 {
		if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID(fmt.Sprint("evt_", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	list := func(query string) givenUp { return get[givenUp](w, "/api/abandoned?since=1h"+query) }
	// Suspended as they are, they are resumed until both are given up.
	w.until("both are given up", func() bool {
		w.perform(id, "resume", "", fmt.Sprint(time.Now().UnixNano()))
		for _, a := range get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts {
			w.ask("POST", "/api/subscriptions/"+id+"/send", `{"eventId":"`+a.EventID+`"}`, key(fmt.Sprint(time.Now().UnixNano())))
			w.untilPerformed(id)
		}
		return len(list("").Abandoned) == 2
	})
	all := list("&host=" + strings.TrimPrefix(w.endpoint.URL, "http://"))
	if a := all.Abandoned[0]; a.Subscription != id || a.Principal != "ann" || strings.Contains(a.URL, "hidden") || a.Attempt.EventID != "evt_1" || a.Attempt.Category == "" || a.Attempt.TookMs == nil {
		t.Errorf("%+v", a)
	}
	one := list("&limit=1")
	if rest := list("&limit=1&after=" + one.Next); one.Next == "" || len(rest.Abandoned) != 1 || rest.Abandoned[0].Attempt.EventID != "evt_2" || rest.Next != "" {
		t.Errorf("%+v then %+v", one, rest)
	}
	if none := list("&principal=bob"); none.Abandoned == nil || len(none.Abandoned) != 0 {
		t.Errorf("%+v", none)
	}
	for _, q := range []string{"", "?since=x", "?since=1h&until=x", "?since=1h&mode=push"} {
		w.isProblem(q, w.ask("GET", "/api/abandoned"+q, ""), 400, "bad_request")
	}
	for _, q := range []string{"?since=1h&until=2h", "?since=1h&after=/"} {
		w.isProblem(q, w.ask("GET", "/api/abandoned"+q, ""), 400, "invalid")
	}

	page := w.ask("GET", "/act?verb=send&since=1h&event=ping", "")
	w.shows("before", page, "Events to resend", "<dd>2</dd>", "Resend 2 events<", "evt_1", "evt_2", id)
	n := len(w.came())
	w.shows("while it refuses", w.ask("POST", action(t, page), "key=k1", form), "<dt>Done or requested</dt><dd>2</dd>")
	w.untilPerformed(id)
	w.refuse.Store(false)
	if came := w.came()[n:]; len(came) != 2 {
		t.Errorf("%q came", came)
	}
	n += 2
	w.shows("what failed once more is given up later", w.ask("POST", action(t, page), "key=k2", form), "<dt>Done or requested</dt><dd>0</dd>", "This was the last page")

	// A loop of the API: what somebody else has sent meanwhile it does not send.
	send := func(seen time.Time, k string) answered {
		body, err := json.Marshal(map[string]string{"eventId": "evt_1", "seen": seen.Format(time.RFC3339Nano)})
		if err != nil {
			t.Fatal(err)
		}
		defer w.untilPerformed(id)
		return w.ask("POST", "/api/subscriptions/"+id+"/send", string(body), key(k))
	}
	now := list("").Abandoned[0].Attempt.At
	w.isProblem("an older attempt", send(all.Abandoned[0].Attempt.At, "s1"), 409, "under_way")
	if a := send(now, "s2"); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.isProblem("somebody else has sent it", send(now, "s3"), 409, "under_way")
	w.isProblem("no time", w.ask("POST", "/api/subscriptions/"+id+"/send", `{"eventId":"evt_1","seen":"1h"}`, key("s4")), 400, "bad_request")
	w.isProblem("of another verb", w.ask("POST", "/api/subscriptions/"+id+"/pause", `{"seen":"2026-11-22T14:00:00Z"}`, key("s5")), 400, "bad_request")
	rest := w.ask("POST", action(t, w.ask("GET", "/act?verb=send&since=1h&event=ping", "")), "key=k3", form)
	w.shows("the rest", rest, "<dt>Done or requested</dt><dd>1</dd>")
	w.untilPerformed(id)
	if got := w.came()[n:]; len(got) != 2 || got[0] != "evt_1" || got[1] != "evt_2" {
		t.Errorf("%q came", got)
	}
	if left := list("").Abandoned; len(left) != 0 {
		t.Errorf("%+v", left)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var last operator.AuditEntry
	for _, e := range w.audit {
		if e.Key == "s2" {
			last = e
		}
	}
	if last.Verb != "send" || last.EventID != "evt_1" || last.Asked != "seen "+plain.Time(now) {
		t.Errorf("%+v", last)
	}
}
