package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An auditList is what the API answers.
type auditList struct {
	Entries []operator.AuditEntry
	Next    string
}

// SRV-8: who did what, when and what came of it, by the API and by the console; what is read is not in it.
func TestSRV8Audit(t *testing.T) {
	w := newWorld(t)
	if l := get[auditList](w, "/api/audit"); l.Entries == nil || len(l.Entries) != 0 || l.Next != "" {
		t.Errorf("at first: %+v", l)
	}
	evil := `<script>alert("ann")</script>`
	id := w.subscribe(evil, "/a")
	w.ask("GET", "/api/subscriptions/"+id, "")
	by := func(actor string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Actor", actor) }
	}
	w.ask("POST", "/api/subscriptions/"+id+"/pause", "", key("1"))
	w.ask("POST", "/api/subscriptions/"+id+"/pause", "", key("1")) // a repetition is an entry too
	w.ask("POST", "/api/subscriptions/"+id+"/replay", `{"position":7}`, key("2"), by("ivan"))
	w.ask("POST", "/api/subscriptions/sub_x/end", "", key("3"), by("ivan"))
	w.ask("POST", "/act?verb=unpause&event=ping", "key=4", form)
	w.ask("POST", "/act?verb=unpause&event=ping", "key=5", form) // there is nothing to do
	say := func(l auditList) string {
		var lines []string
		for _, e := range l.Entries {
			about := strings.NewReplacer(id, "ID", evil, "EVIL").Replace(e.Subscription + "," + e.Principal)
			if e.At.IsZero() {
				about = "never"
			}
			lines = append(lines, fmt.Sprintf("%s %s %s [%s] %s %d", e.Actor, e.Verb, about, e.Asked, e.Key, e.Status))
		}
		return strings.Join(lines, "\n")
	}
	all := get[auditList](w, "/api/audit")
	if got, want := say(all), `olga unpause ID,EVIL [] 4 200
ivan end sub_x, [] 3 404
ivan replay ID,EVIL [position 7] 2 400
olga pause ID,EVIL [] 1 200
olga pause ID,EVIL [] 1 200`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if all.Entries[0].Outcome != "" || all.Entries[1].Outcome == "" || all.Entries[2].Outcome == "" || all.Entries[3].Outcome != "" || len(all.Entries) != 5 {
		t.Errorf("%+v", all)
	}
	for q, want := range map[string]int{"actor=ivan": 2, "verb=pause": 2, "subscription=" + id: 4, "event=ping": 4, "since=1h": 5,
		"since=2999-01-01T00:00:00Z": 0, "actor=ivan&verb=end": 1} {
		if l := get[auditList](w, "/api/audit?"+q); len(l.Entries) != want {
			t.Errorf("%s: %s", q, say(l))
		}
	}
	if l := get[auditList](w, "/api/audit?limit=2"); len(l.Entries) != 2 || l.Next != "4" {
		t.Errorf("%+v", l)
	}
	if l := get[auditList](w, "/api/audit?limit=2&after=4"); l.Entries[0].Position != 3 || l.Next != "2" {
		t.Errorf("%+v", l)
	}
	for _, q := range []string{"since=yesterday", "after=x", "after=0", "limit=0", "state=active", "actor=a&actor=b"} {
		w.isProblem(q, w.ask("GET", "/api/audit?"+q, ""), 400, "bad_request")
	}

	page := w.ask("GET", "/audit?limit=3", "")
	for _, want := range []string{"&lt;script&gt;", "ivan", "position 7", `href="/subscriptions/` + id + `"`, "after=3", "refused"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page has no %s: %s", want, page.body)
		}
	}
	if page.status != 200 || strings.Contains(page.body, "<script") {
		t.Errorf("%d %s", page.status, page.body)
	}

	w.mu.Lock()
	w.deny = func(a admin.Action) error {
		if a.Verb == admin.ListAudit && a.Subscription != id {
			return errors.New("no")
		}
		return nil
	}
	w.mu.Unlock()
	w.isProblem("not allowed", w.ask("GET", "/api/audit?actor=ivan", ""), 403, "forbidden")
	if l := get[auditList](w, "/api/audit?subscription="+id); len(l.Entries) != 4 {
		t.Errorf("%+v", l)
	}
}

// An audit log that takes nothing stops no action, and the server's log says so.
func TestSRV8AuditFails(t *testing.T) {
	w := newWorld(t)
	w.store.failAudit.Store(true)
	id := w.subscribe("ann", "/a")
	if a := w.ask("POST", "/api/subscriptions/"+id+"/pause", "", key("1")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(w.log.String(), "the audit log has not kept an action") || len(w.audit) != 1 {
		t.Errorf("%s\n%+v", w.log.String(), w.audit)
	}
	if a := w.ask("GET", "/api/audit", ""); a.status != 500 || strings.Contains(a.body, "own words") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func (s *watchedStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	if name == engine.AuditLog && s.failAudit.Load() {
		return nil, errMarker
	}
	return s.Store.OpenLog(ctx, name, o)
}
