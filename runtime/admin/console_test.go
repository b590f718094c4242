package admin_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
)

// TestDetailsInPages expects the actions of a subscription above its attempts, and 20 attempts or deliveries on a page
// with a link to the others. The API returns all attempts.
func TestDetailsInPages(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	for i := range 25 {
		if err := w.emit.Emit(t.Context(), payload{}, events.WithID(fmt.Sprint("evt_", i))); err != nil {
			t.Fatal(err)
		}
	}
	w.until("25 attempts", func() bool { made, err := w.es.Admin().Attempts(t.Context(), id); return err == nil && len(made) == 25 })
	rows := func(path string) int { return strings.Count(w.ask("GET", path, "").body, ">Resend</button>") }
	path := "/subscriptions/" + id
	page := w.ask("GET", path, "")
	w.shows("20 attempts", page, `<a href="?attempts=all">5 earlier attempts</a>`)
	if n := rows(path); n != 20 {
		t.Errorf("the page has %d attempts", n)
	}
	if strings.Index(page.body, "<h2>Actions") > strings.Index(page.body, "<h2>Attempts") {
		t.Error("the actions follow the attempts")
	}
	if n := rows(path + "?attempts=all"); n != 25 {
		t.Errorf("the page of all attempts has %d", n)
	}
	all := get[struct{ Attempts []any }](w, "/api/subscriptions/"+id+"/attempts")
	if len(all.Attempts) != 25 {
		t.Errorf("the API has %d attempts", len(all.Attempts))
	}
	for i := range 24 {
		w.subscribe(fmt.Sprint("p", i), "/many")
	}
	if err := w.emit.Emit(t.Context(), payload{}, events.WithID("evt_last")); err != nil {
		t.Fatal(err)
	}
	path = "/types/ping/occurrences/26"
	w.until("25 attempts at the event", func() bool { return rows(path+"?limit=25") == 25 })
	next := regexp.MustCompile(`<a href="(\?[^"]*)">Next page`).FindStringSubmatch(w.ask("GET", path, "").body)
	if len(next) != 2 {
		t.Fatal("the page of an event with 25 deliveries has no next page")
	}
	first, second := rows(path), rows(path+strings.ReplaceAll(next[1], "&amp;", "&"))
	if first > 20 || first+second != 25 {
		t.Errorf("the pages of an event have %d and %d deliveries", first, second)
	}
}

// TestEndpointsAreText expects no link to an endpoint, because a click would send it a request from an operator's browser.
func TestEndpointsAreText(t *testing.T) {
	w := newWorld(t, func(o *callbacks.Options) { o.AllowOrigins = append(o.AllowOrigins, "https://127.0.0.1:1") })
	// The event precedes the subscription, so that the endpoint is not contacted.
	if err := w.emit.Emit(t.Context(), payload{}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	id, err := w.es.Admin().Subscribe(t.Context(), operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{
		Principal: "ann", Event: "ping", URL: "https://127.0.0.1:1/orders"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/subscriptions", "/subscriptions/" + id, "/types/ping/occurrences/1", "/subscriptions/" + id + "/replay?position=1", "/act?verb=pause&all=true"} {
		page := w.ask("GET", path, "")
		w.shows(path, page, `<span class="selectable">https://<wbr>127.0.0.1:1/<wbr>orders</span>`)
		if strings.Contains(page.body, `href="https:`) {
			t.Errorf("%s links to the endpoint", path)
		}
	}
}

// TestUndoneByClient expects a page to say which actions a client or a failing endpoint can undo.
func TestUndoneByClient(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	w.shows("end", w.ask("GET", "/subscriptions/"+id, ""), "Its client may subscribe again with its next refresh, unless server.Options.Authorize rejects it.", "an endpoint that keeps failing is suspended again")
	w.shows("revoke", w.ask("GET", "/subscriptions", ""), "Its clients may subscribe again, unless server.Options.Authorize rejects them.")
	w.shows("disconnect", w.ask("GET", "/connections", ""), "the client may connect again, unless server.Options.Authorize rejects it.")
}
