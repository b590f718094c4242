package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A handler that anybody could reach is not made.
func TestOptions(t *testing.T) {
	w := newWorld(t)
	ok := admin.Tokens(map[string]string{"olga": "secret"})
	for name, o := range map[string]admin.Options{
		"no Authenticate": {Hosts: []string{"admin.test"}},
		"no Hosts":        {Authenticate: ok},
		"a URL":           {Authenticate: ok, Hosts: []string{"http://admin.test/"}},
		"a wildcard":      {Authenticate: ok, Hosts: []string{"*"}},
	} {
		if _, err := admin.NewHandler(w.es, o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	bare, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.NewHandler(bare, admin.Options{Authenticate: ok, Hosts: []string{"admin.test"}}); err == nil || !strings.Contains(err.Error(), "operators.New()") {
		t.Errorf("a server without a part for operators: %v", err)
	}
	if _, err := admin.NewHandler(nil, admin.Options{Authenticate: ok, Hosts: []string{"admin.test"}}); err == nil {
		t.Error("no server is accepted")
	}
}

func TestHosts(t *testing.T) {
	w := newWorld(t)
	for host, want := range map[string]int{"admin.test": 200, "ADMIN.test:8443": 200, "evil.test": 421, "admin.test.evil.test": 421, "": 421, "127.0.0.1": 421} {
		a := w.ask("GET", "/api/types", "", func(r *http.Request) { r.Host = host })
		if a.status != want {
			t.Errorf("%q: %d", host, a.status)
		}
		if want != 200 {
			w.isProblem(host, a, want, "foreign_host")
		}
	}
	if len(w.asked) != 2 {
		t.Errorf("Authorize was asked %d times", len(w.asked))
	}
}

// Another origin's page changes nothing, with the operator's own cookies or not.
func TestCrossOrigin(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	before := w.state()
	for _, site := range []string{"cross-site", "same-site"} {
		a := w.ask("POST", "/api/subscriptions/"+id+"/end", "", key("1"), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) })
		w.isProblem(site, a, 403, "cross_origin")
	}
	a := w.ask("POST", "/subscriptions/"+id+"/end", "key=1&sure=yes", form, func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") })
	w.isProblem("form", a, 403, "cross_origin")
	// AUTH-5: nor does it read, or open the live tail.
	for _, path := range []string{"/", "/api/subscriptions"} {
		a = w.ask("GET", path, "", func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") })
		w.isProblem(path, a, 403, "cross_origin")
	}
	if after := w.state(); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	for _, p := range []string{"ann", "bob", "cid", "dan", "eve"} {
		w.subscribe(p, "/hooks/"+p+"?token=hidden")
	}
	all := get[subscriptions](w, "/api/subscriptions")
	if len(all.Subscriptions) != 5 || all.Next != "" {
		t.Fatalf("%+v", all)
	}
	var paged []string
	for path := "/api/subscriptions?limit=2"; ; {
		p := get[subscriptions](w, path)
		for _, s := range p.Subscriptions {
			paged = append(paged, s.ID)
		}
		if p.Next == "" {
			break
		}
		path = "/api/subscriptions?limit=2&after=" + p.Next
	}
	if len(paged) != 5 {
		t.Errorf("pages have %q", paged)
	}
	for i, s := range all.Subscriptions {
		if s.ID != paged[i] || strings.Contains(s.URL, "hidden") {
			t.Errorf("%+v", s)
		}
	}
	for query, want := range map[string]int{"principal=ann": 1, "principal=x": 0, "event=ping": 5, "event=x": 0, "state=active": 5, "state=suspended": 0,
		"url=/hooks/bob": 1, "url=hidden": 0, "minBehind=0": 5, "minBehind=1": 0, "after=zzz": 0, "failing=true": 0, "failing=false": 5, "failing=": 5, "late=1ns": 0, "late=": 5, "host=x": 0,
		"host=" + strings.TrimPrefix(w.endpoint.URL, "http://"): 5, "principal=ann&event=ping&limit=1": 1} {
		if p := get[subscriptions](w, "/api/subscriptions?"+query); len(p.Subscriptions) != want || p.Next != "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "state=gone", "minBehind=-1", "minBehind=x", "failing=1", "late=5", "late=-5m", "late=0s", "after=a%20b", "after=%00", "limit=1&limit=2", "other=1", "principal=%ff", "url=" + strings.Repeat("a", 3000)} {
		w.isProblem(query, w.ask("GET", "/api/subscriptions?"+query, ""), 400, "bad_request")
	}
	w.isProblem("failing", w.ask("GET", "/api/subscriptions?failing=true&after=x", ""), 400, "invalid")
	// A list is authorized with its filters.
	w.deny = func(a admin.Action) error {
		if a.Principal != "ann" {
			return errors.New("ann alone")
		}
		return nil
	}
	w.isProblem("all", w.ask("GET", "/api/subscriptions", ""), 403, "forbidden")
	w.isProblem("bob's", w.ask("GET", "/api/subscriptions?principal=bob", ""), 403, "forbidden")
	if p := get[subscriptions](w, "/api/subscriptions?principal=ann"); len(p.Subscriptions) != 1 {
		t.Errorf("%+v", p)
	}
}

type attempts struct {
	Attempts []struct {
		EventID string
		Number  int
		Status  int
		TookMs  *float64
		Took    any
		AskedBy *string
	}
}

// What was sent is shown, one event is sent again, once for a key, and written down.
func TestSend(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	list := func() attempts { return get[attempts](w, "/api/subscriptions/"+id+"/attempts") }
	w.until("the delivery", func() bool { return len(list().Attempts) == 1 })
	if a := list().Attempts[0]; a.EventID != "evt_1" || a.Number != 1 || a.Status != 200 || a.TookMs == nil || a.Took != nil || a.AskedBy != nil {
		t.Errorf("%+v", a)
	}
	path := "/api/subscriptions/" + id + "/send"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := w.ask("POST", path, `{"eventId":"evt_1"}`, key("k1")); a.status != 202 || a.body != `{"done":false,"kind":"send","number":1}`+"\n" {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	w.untilPerformed(id)
	if l := list().Attempts; len(l) != 2 || l[0].Number != 2 || l[0].AskedBy == nil || *l[0].AskedBy != "olga" {
		t.Errorf("%+v", l)
	}
	if a := w.ask("POST", path, `{"eventId":"evt_1"}`, key("k1")); a.status != 202 || !strings.Contains(a.body, `"number":1`) {
		t.Errorf("repeated once more: %d %s", a.status, a.body)
	}
	if got := w.came(); len(got) != 2 || got[1] != "evt_1" {
		t.Errorf("%q came", got)
	}
	w.isProblem("the same key for another", w.ask("POST", path, `{"eventId":"evt_2"}`, key("k1")), 404, "not_found")
	if a := w.perform(id, "send", `{"eventId":"evt_1"}`, "k2"); !strings.Contains(a.body, `"number":2`) || list().Attempts[0].Number != 3 {
		t.Errorf("%s", a.body)
	}
	if len(w.audit) != 11 { // repeated ones are in it too
		t.Fatalf("%+v", w.audit)
	}
	if r := w.audit[0]; r.Actor != "olga" || r.Verb != string(admin.Send) || r.Subscription != id || r.Principal != "ann" || r.Event != "ping" ||
		r.EventID != "evt_1" || r.Key != "k1" || r.Status != 202 || r.At.IsZero() {
		t.Errorf("%+v", r)
	}
	if text := w.log.String(); !strings.Contains(text, `"audit":{"actor":"olga","verb":"send"`) {
		t.Errorf("the log has no audit group: %s", text)
	}
	if strings.Contains(w.log.String(), "own words") || strings.Contains(w.ask("GET", "/api/subscriptions/"+id+"/attempts", "").body, "own words") {
		t.Error("what the endpoint said is shown")
	}
}

// What is not there is a page for a browser, and a problem for everybody else and below /api/ (E17).
func TestNotThere(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	html := func(r *http.Request) { r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8") }
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/nowhere", 404, "no page has this path"},
		{"GET", "/subscriptions/sub_x", 404, "the subscription: not found, or already removed"},
		{"GET", "/types/unknown", 404, "the event type: not found, or already removed"},
		{"GET", "/tail?event=unknown", 404, "the event type: not found, or already removed"},
		{"GET", "/subscriptions?state=odd", 400, "state must be active, suspended, paused, unreadable or failing"},
		{"GET", "/connections?limit=0", 400, "limit must be a number from 1 to 1000"},
		{"POST", "/connections", 405, "method not allowed: use GET"},
	} {
		a := w.ask(c.method, c.path, "", html)
		if a.status != c.status || a.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(a.body, c.says) || !strings.Contains(a.body, "<h1>"+http.StatusText(c.status)) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
		if a := w.ask(c.method, c.path, ""); a.status != c.status || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s for a program: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	for _, path := range []string{"/api/nowhere", "/api/subscriptions/sub_x"} {
		if a := w.ask("GET", path, "", html); a.status != 404 || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	const says = "the cursor of 7 bytes is malformed"
	if a := w.ask("POST", "/subscriptions/"+id+"/replay", "key=k1&cursor=unknown", form); a.status != 400 || !strings.Contains(a.body, says) || strings.Contains(a.body, "/cursor") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.ask("POST", "/api/subscriptions/"+id+"/replay", `{"cursor":"unknown"}`, key("k2")); a.status != 400 || !strings.Contains(a.body, says) || strings.Contains(a.body, "/cursor") {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.deny = func(admin.Action) error { return errors.New("no") }
	if a := w.ask("GET", "/connections", "", html); a.status != 403 || !strings.Contains(a.body, "<h1>Forbidden") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Beside a request that is pending nothing is sent again; the page tells who asked for which (E12).
func TestSendUnderWay(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	path := "/api/subscriptions/" + id
	w.until("the delivery", func() bool { return len(get[attempts](w, path+"/attempts").Attempts) == 1 })
	hold := make(chan struct{})
	w.hold.Store(&hold)
	if a := w.ask("POST", path+"/send", `{"eventId":"evt_1"}`, key("k1")); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.until("the second attempt", func() bool { return len(w.came()) == 2 })
	w.isProblem("beside it", w.ask("POST", path+"/send", `{"eventId":"evt_1"}`, key("k2")), 409, "under_way")
	if a := w.ask("POST", "/subscriptions/"+id+"/send", "key=k3&eventId=evt_1", form); a.status != 409 || !strings.Contains(a.body, "a request to send this event is pending") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if page := w.ask("GET", "/subscriptions/"+id, "").body; !strings.Contains(page, `<span class="chip held">pending</span>`) {
		t.Errorf("%s", page)
	}
	close(hold)
	w.until("both are kept", func() bool { return len(get[attempts](w, path+"/attempts").Attempts) == 2 })
	w.untilPerformed(id)
	page := w.ask("GET", "/subscriptions/"+id, "").body
	if strings.Count(page, ">olga</td>") != 2 || !strings.Contains(page, `<span class="chip good">done</span>`) || strings.Count(page, ">schedule</td>") != 1 || len(w.came()) != 2 {
		t.Errorf("%d came, %s", len(w.came()), page)
	}
}

func TestActions(t *testing.T) {
	w := newWorld(t)
	id, other := w.subscribe("ann", "/a"), w.subscribe("bob", "/b")
	start := *get[operator.WebhookInfo](w, "/api/subscriptions/"+id).Cursor
	w.refuse.Store(true)
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	state := func() operator.State { return get[operator.WebhookInfo](w, "/api/subscriptions/"+id).State }
	w.until("the suspension", func() bool { return state() == operator.StateSuspended })
	if p := get[subscriptions](w, "/api/subscriptions?state=suspended&principal=ann&minBehind=1"); len(p.Subscriptions) != 1 {
		t.Errorf("%+v", p)
	}
	for i, step := range []struct {
		verb string
		want operator.State
	}{{"pause", operator.StatePaused}, {"resume", operator.StatePaused}, {"pause", operator.StatePaused}, {"unpause", operator.StateActive}} {
		if step.verb == "resume" {
			w.perform(id, step.verb, "", "p")
		} else if a := w.ask("POST", "/api/subscriptions/"+id+"/"+step.verb, "", key("p"+string(rune('0'+i)))); a.status != 200 {
			t.Errorf("%s: %d %s", step.verb, a.status, a.body)
		}
		if got := state(); got != step.want {
			t.Errorf("%s: now %s", step.verb, got)
		}
		if p := get[subscriptions](w, "/api/subscriptions?principal=ann&state="+string(step.want)); len(p.Subscriptions) != 1 {
			t.Errorf("%s: %+v", step.verb, p)
		}
	}
	w.refuse.Store(false)
	w.perform(id, "resume", "", "1")
	if got := state(); got != operator.StateActive {
		t.Errorf("resumed: %s", got)
	}
	before := len(w.came())
	w.perform(id, "replay", `{"cursor":"`+start+`"}`, "2")
	w.until("the replay", func() bool { return len(w.came()) > before })
	w.perform(id, "end", "", "3")
	w.isProblem("after its end", w.ask("GET", "/api/subscriptions/"+id, ""), 404, "not_found")
	w.isProblem("pressed twice", w.ask("POST", "/api/subscriptions/"+id+"/end", "", key("3")), 404, "not_found")
	if a := w.ask("POST", "/api/revoke", `{"principal":"bob"}`, key("4")); a.status != 200 || !strings.Contains(a.body, `"ended":1`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.isProblem("after its revocation", w.ask("GET", "/api/subscriptions/"+other, ""), 404, "not_found")
}

// What is wrong says so and changes nothing.
func TestBadActions(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	gone := w.subscribe("bob", "/b")
	w.perform(gone, "end", "", "gone")
	w.audit = nil
	before := w.state()
	sub := "/api/subscriptions/"
	for _, c := range []struct {
		name, path, body, key string
		status                int
		code                  string
	}{
		{"no key", sub + id + "/end", "", "", 400, "bad_request"},
		{"a long key", sub + id + "/end", "", strings.Repeat("k", 129), 400, "bad_request"},
		{"a key with a space", sub + id + "/end", "", "a b", 400, "bad_request"},
		{"no event", sub + id + "/send", "", "k", 400, "bad_request"},
		{"an empty event", sub + id + "/send", `{"eventId":""}`, "k", 400, "bad_request"},
		{"no cursor", sub + id + "/replay", `{}`, "k", 400, "bad_request"},
		{"a member of another verb", sub + id + "/end", `{"cursor":"x"}`, "k", 400, "bad_request"},
		{"an unknown member", sub + id + "/send", `{"eventId":"e","x":1}`, "k", 400, "bad_request"},
		{"something after the object", sub + id + "/send", `{"eventId":"e"} {}`, "k", 400, "bad_request"},
		{"no JSON", sub + id + "/send", `eventId=e`, "k", 400, "bad_request"},
		{"a large body", sub + id + "/send", `{"eventId":"` + strings.Repeat("e", 70_000) + `"}`, "k", 400, "bad_request"},
		{"no principal", "/api/revoke", `{"events":["ping"]}`, "k", 400, "bad_request"},
	} {
		w.isProblem(c.name, w.ask("POST", c.path, c.body, key(c.key)), c.status, c.code)
	}
	w.isProblem("a form", w.ask("POST", sub+id+"/send", "eventId=e", key("k"), form), 400, "bad_request")
	if after := w.state(); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	// These were tried, so that they are in the audit log.
	for i, c := range []struct {
		name, path, body string
		status           int
		code             string
	}{
		{"an unknown event", sub + id + "/send", `{"eventId":"evt_x"}`, 404, "not_found"},
		{"a malformed cursor", sub + id + "/replay", `{"cursor":"x"}`, 400, "invalid"},
		{"an unknown subscription", sub + "sub_x/end", "", 404, "not_found"},
		{"one that has ended", sub + gone + "/resume", "", 404, "not_found"},
		{"an unknown connection", "/api/connections/stream-1/disconnect", "", 404, "not_found"},
	} {
		w.isProblem(c.name, w.ask("POST", c.path, c.body, key("t"+string(rune('a'+i)))), c.status, c.code)
	}
	if len(w.audit) != 5 || w.audit[0].Status != 404 {
		t.Errorf("%+v", w.audit)
	}
	if got := get[subscriptions](w, "/api/subscriptions"); len(got.Subscriptions) != 1 || got.Subscriptions[0].ID != id {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", sub + "sub_x", 404, "not_found"},
		{"GET", sub + "sub_x/attempts", 404, "not_found"},
		{"GET", "/api/nothing", 404, "no_such_page"},
		{"GET", sub + id + "/end", 405, "method_not_allowed"},
		{"DELETE", sub + id, 405, "method_not_allowed"},
		{"POST", "/api/subscriptions", 405, "method_not_allowed"},
		{"GET", "/api/connections?mode=push&after=%20", 400, "bad_request"},
		{"GET", "/api/connections?state=active", 400, "bad_request"},
	} {
		w.isProblem(c.method+" "+c.path, w.ask(c.method, c.path, ""), c.status, c.code)
	}
	hostile := w.ask("GET", "/endpoints?host="+url.QueryEscape(`"><script>x</script>`), "")
	if hostile.status != 200 || strings.Contains(hostile.body, "<script>x") {
		t.Errorf("a hostile host: %d %s", hostile.status, hostile.body)
	}
}

// Authorize is asked about the very thing, of what is not there as well, and nothing is done before.
func TestAuthorize(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	w.deny = func(a admin.Action) error {
		if a.Verb == admin.Show && a.Subscription == id || a.Verb == admin.ListSubscriptions {
			return nil
		}
		return errors.New("the secret reason")
	}
	before := w.state()
	w.asked = nil
	for _, path := range []string{"/api/subscriptions/" + id + "/end", "/api/subscriptions/sub_x/end"} {
		a := w.ask("POST", path, "", key("k"))
		w.isProblem(path, a, 403, "forbidden")
		if strings.Contains(a.body, "secret") {
			t.Error("the reason is shown")
		}
	}
	if want := (admin.Action{Verb: admin.End, Subscription: id, Principal: "ann", Event: "ping"}); len(w.asked) != 2 || w.asked[0] != want {
		t.Errorf("%+v", w.asked)
	}
	w.isProblem("attempts", w.ask("GET", "/api/subscriptions/"+id+"/attempts", ""), 403, "forbidden")
	w.isProblem("types", w.ask("GET", "/api/types", ""), 403, "forbidden")
	w.asked = nil
	for _, path := range []string{"/api/subscriptions/" + id, "/api/subscriptions/" + id + "/attempts", "/subscriptions/" + id} {
		w.ask("GET", path, "")
	}
	of := admin.Action{Subscription: id, Principal: "ann", Event: "ping"}
	show, attempts := of, of
	show.Verb, attempts.Verb = admin.Show, admin.Attempts
	if want := []admin.Action{show, attempts, show, attempts}; !slices.Equal(w.asked, want) { // the page asks for both (M4)
		t.Errorf("of GETs %+v, want %+v", w.asked, want)
	}
	w.isProblem("the document", w.ask("GET", "/openapi.yaml", ""), 403, "forbidden")
	w.isProblem("connections", w.ask("GET", "/api/connections", ""), 403, "forbidden")
	if a := w.ask("GET", "/subscriptions/"+id, ""); a.status != 200 || !strings.Contains(a.body, "No attempt is recorded") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a := w.ask("GET", "/", "", func(r *http.Request) { r.Header.Set("Anonymous", "yes") })
	w.isProblem("nobody", a, 401, "unauthenticated")
	if len(a.header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("%v", a.header)
	}
	w.deny = nil
	if after := w.state(); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

func TestTokens(t *testing.T) {
	f := admin.Tokens(map[string]string{"olga": "secret", "nobody": ""})
	for name, c := range map[string]struct {
		set   func(*http.Request)
		actor string
	}{
		"bearer":    {func(r *http.Request) { r.Header.Set("Authorization", "bearer secret") }, "olga"},
		"basic":     {func(r *http.Request) { r.SetBasicAuth("me", "secret") }, "olga"},
		"wrong":     {func(r *http.Request) { r.Header.Set("Authorization", "Bearer secre") }, ""},
		"empty":     {func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, ""},
		"none":      {func(r *http.Request) {}, ""},
		"no scheme": {func(r *http.Request) { r.Header.Set("Authorization", "secret") }, ""},
	} {
		r, _ := http.NewRequest("GET", "/", nil)
		c.set(r)
		actor, err := f(r)
		if actor != c.actor || (err == nil) != (c.actor != "") || err != nil && !errors.Is(err, admin.ErrUnauthenticated) {
			t.Errorf("%s: %q %v", name, actor, err)
		}
	}
}

var keys = regexp.MustCompile(`name="key" value="([^"]+)"`)

// The console shows what the API does, with text of others as text, and its buttons work by forms.
func TestConsole(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(`<script>alert("ann")</script>`, `/a'%22%3E%3Cimg%20src=x%3E?token=hidden`)
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID(`evt_<i>`)); err != nil {
		t.Fatal(err)
	}
	w.until("the delivery", func() bool { return len(get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts) == 1 })
	for _, path := range []string{"/", "/subscriptions", "/subscriptions?state=active&url=a", "/subscriptions/" + id, "/connections", "/types/ping", "/tail", "/tail?event=ping"} {
		a := w.ask("GET", path, "")
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		live := strings.HasPrefix(path, "/tail")
		if script := `<script src="/tail.js" defer></script>`; live {
			if strings.Count(a.body, script) != 1 {
				t.Errorf("%s: %s", path, a.body)
			}
			a.body = strings.ReplaceAll(a.body, script, "")
		}
		for _, bad := range []string{"<script", "<img", "<i>", "<b>", "hidden<", "token=", "style=", "onclick"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") || live != strings.Contains(csp, "script-src 'self'") {
			t.Errorf("%s: %s", path, csp)
		}
	}
	if a := w.ask("GET", "/tail.js", ""); a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/javascript") || strings.Contains(a.body, "innerHTML") {
		t.Errorf("%d %s", a.status, a.header)
	}
	if a := w.ask("GET", "/style.css", ""); a.status != 200 || !strings.Contains(a.body, "prefers-color-scheme: dark") {
		t.Errorf("%d %s", a.status, a.header)
	}
	// Mounted below a path, links stay below it.
	mounted := http.StripPrefix("/ops", w.handler)
	old := w.handler
	w.handler = mounted
	page := w.ask("GET", "/ops/subscriptions/"+id, "").body
	if !strings.Contains(page, `href="/ops/style.css"`) || strings.Contains(page, `href="/style.css"`) {
		t.Errorf("%s", page)
	}
	all := keys.FindAllStringSubmatch(page, -1)
	if len(all) != 6 || all[0][1] == all[1][1] {
		t.Fatalf("%q", all)
	}
	press := func() answered {
		return w.ask("POST", "/ops/subscriptions/"+id+"/send", url.Values{"key": {all[5][1]}, "eventId": {"evt_<i>"}}.Encode(), form)
	}
	for range 2 { // pressed twice
		if a := press(); a.status != 303 || a.header.Get("Location") != "/ops/subscriptions/"+id+"?done=accepted" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	w.handler = old
	w.untilPerformed(id)
	if got := w.came(); len(got) != 2 || got[1] != "evt_<i>" {
		t.Errorf("%q", got)
	}
	for _, body := range []string{"key=e1", "sure=yes", "key=e1&sure=no"} {
		if a := w.ask("POST", "/subscriptions/"+id+"/end", body, form); a.status != 400 || !strings.Contains(a.body, "bad") {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := w.ask("POST", "/subscriptions/"+id+"/end", "key=e2&sure=yes", form); a.status != 303 || a.header.Get("Location") != "/subscriptions" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	w.untilPerformed(id)
	if a := w.ask("POST", "/subscriptions/"+id+"/resume", "key=e3", form); a.status != 404 || !strings.Contains(a.body, "not found") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// SRV-8: what fails is found by one URL of the console, is not shown as active, and its host sums it up.
func TestFailing(t *testing.T) {
	w := newWorld(t)
	good, bad := w.subscribe("ann", "/good"), w.subscribe("bob", "/bad?token=hidden")
	if err := w.es.Admin().Pause(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	w.refuse.Store(true)
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	list := func() []operator.WebhookInfo {
		return get[subscriptions](w, "/api/subscriptions?failing=true").Subscriptions
	}
	w.until("the failure", func() bool { return len(list()) == 1 })
	if i := list()[0]; i.ID != bad || i.FailedSince.IsZero() || i.WaitingSince.IsZero() {
		t.Errorf("%+v", i)
	}
	if p := get[subscriptions](w, "/api/subscriptions?late=1ns"); len(p.Subscriptions) != 2 {
		t.Errorf("late: %+v", p)
	}
	host := strings.TrimPrefix(w.endpoint.URL, "http://")
	e := get[struct{ Endpoints []operator.Endpoint }](w, "/api/endpoints?host="+host).Endpoints
	if len(e) != 2 || e[0].URL != w.endpoint.URL+"/bad" || e[0].Failing != 1 || e[1].Paused != 1 || e[1].Failing != 0 {
		t.Errorf("%+v", e)
	}
	for path, shows := range map[string]string{
		"/subscriptions?failing=true": bad, "/endpoints": "/endpoints?host=" + url.QueryEscape(host), "/endpoints?host=" + host: "url=" + url.QueryEscape(w.endpoint.URL+"/bad"),
		"/subscriptions?failing=true&late=1ns": `<span class="chip `,
	} {
		a := w.ask("GET", path, "")
		if a.status != 200 || !strings.Contains(strings.ToLower(a.body), strings.ToLower(shows)) || strings.Contains(a.body, "hidden</") || strings.Contains(a.body, "token=") {
			t.Errorf("%s: %d, no %s\n%s", path, a.status, shows, a.body)
		}
	}
	w.isProblem("endpoints", w.ask("GET", "/api/endpoints?mode=push", ""), 400, "bad_request")
	w.deny = func(a admin.Action) error { return errors.New("no") }
	w.isProblem("endpoints", w.ask("GET", "/api/endpoints", ""), 403, "forbidden")
}

// SRV-8: by its id an event is found with its payload, as far as that is shown, and what became of it; links lead both
// ways.
func TestOccurrence(t *testing.T) {
	w := newWorld(t)
	good, held := w.subscribe("ann", "/good"), w.subscribe("bob", "/held?token=hidden")
	if err := w.es.Admin().Pause(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if err := w.emit.Emit(t.Context(), payload{ID: "<secret>"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	w.until("the delivery", func() bool { return len(get[attempts](w, "/api/subscriptions/"+good+"/attempts").Attempts) == 1 })
	type page struct {
		Occurrence struct {
			Event, EventID, Cursor string
			Position, Bytes        int
			Data                   json.RawMessage
		}
		Deliveries []struct {
			Subscription, URL, Outcome string
			Attempts                   []struct{ Status int }
		}
	}
	const path = "/types/ping/occurrences/1"
	p := get[page](w, "/api"+path)
	if o := p.Occurrence; o.EventID != "evt_1" || o.Cursor == "" || o.Bytes == 0 || o.Data != nil || len(p.Deliveries) != 2 {
		t.Errorf("%+v", p)
	}
	for _, d := range p.Deliveries {
		if want := map[string]string{good: "accepted 1", held: "waiting 0"}[d.Subscription]; fmt.Sprint(d.Outcome, " ", len(d.Attempts)) != want || strings.Contains(d.URL, "token") {
			t.Errorf("%+v, want %s", d, want)
		}
	}
	if a := w.ask("GET", "/occurrences?eventId=evt_1", ""); a.status != 303 || a.header.Get("Location") != path {
		t.Errorf("%d %q", a.status, a.header.Get("Location"))
	}
	if a := w.ask("GET", "/occurrences?eventId=none", ""); a.status != 200 || !strings.Contains(a.body, "No event has this id.") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.ask("GET", "/occurrences", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	a := w.ask("GET", path, "")
	for _, shows := range []string{"evt_1", "/subscriptions/" + good, "/subscriptions/" + held, "Payloads are hidden", `value="evt_1"`, "waiting"} {
		if a.status != 200 || !strings.Contains(a.body, shows) || strings.Contains(a.body, "secret") || strings.Contains(a.body, "token=") {
			t.Errorf("%d, no %s in %s", a.status, shows, a.body)
		}
	}
	if a := w.ask("GET", "/subscriptions/"+good, ""); !strings.Contains(a.body, path) {
		t.Errorf("the attempt does not lead to the event: %s", a.body)
	}

	// Payloads are shown by an option, but for what is redacted.
	shows, err := admin.NewHandler(w.es, admin.Options{Hosts: []string{"admin.test"}, ShowPayloads: true, Authenticate: func(*http.Request) (string, error) { return "olga", nil }})
	if err != nil {
		t.Fatal(err)
	}
	w.handler = shows
	if p := get[page](w, "/api"+path); string(p.Occurrence.Data) != `{"id":"\u003csecret\u003e"}` {
		t.Errorf("%s", p.Occurrence.Data)
	}
	if a := w.ask("GET", path, ""); !strings.Contains(a.body, "&lt;secret&gt;") {
		t.Errorf("%s", a.body)
	}
	w.handler, err = admin.NewHandler(w.es, admin.Options{Hosts: []string{"admin.test"}, ShowPayloads: true, Redact: []string{"/id", "/none/0"},
		Authenticate: func(*http.Request) (string, error) { return "olga", nil },
		Authorize: func(_ *http.Request, _ string, a admin.Action) error {
			if a.Verb == admin.Attempts {
				return errors.New("no")
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if p := get[page](w, "/api"+path); string(p.Occurrence.Data) != `{"id":"[redacted]"}` || len(p.Deliveries) != 0 {
		t.Errorf("%+v", p)
	}
	if a := w.ask("GET", path, ""); strings.Contains(a.body, "secret") {
		t.Errorf("%s", a.body)
	}
	for _, bad := range []string{"id", "/a~2", "/a~"} {
		if _, err := admin.NewHandler(w.es, admin.Options{Hosts: []string{"a"}, Redact: []string{bad}, Authenticate: func(*http.Request) (string, error) { return "", nil }}); err == nil ||
			!strings.Contains(err.Error(), "Redact") {
			t.Errorf("%q: %v", bad, err)
		}
	}

	for path, want := range map[string]int{"/api/occurrences": 400, "/api/occurrences?eventId=" + strings.Repeat("a", 257): 400, "/api/occurrences?eventId=a&limit=1": 400,
		"/api/occurrences?eventId=a&eventId=b": 400, "/api/occurrences?eventId=a&event=x": 404, "/api/types/ping/occurrences/x": 400, "/api/types/ping/occurrences/0": 404,
		"/api/types/ping/occurrences/2": 404, "/api/types/x/occurrences/1": 404, "/api/types/ping/occurrences/99999999999999999999": 400} {
		if a := w.ask("GET", path, ""); a.status != want {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, want)
		}
	}
}

// E1, E6: what was given up is sent again for a host, and one subscription gets again what happened since a time, a
// position or an event.
func TestReplaySince(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	began := time.Now().Add(-time.Second)
	for _, n := range []string{"1", "2", "3"} {
		if err := w.emit.Emit(t.Context(), payload{ID: n}, events.WithID("evt_"+n)); err != nil {
			t.Fatal(err)
		}
	}
	n := 3
	more := func(what string, by int) {
		t.Helper()
		n += by
		// An attempt under way counts as sent again: each replay waits until what came is settled.
		w.until(what, func() bool {
			i, err := w.es.Admin().Get(t.Context(), id)
			return err == nil && i.Behind != nil && *i.Behind == 0 && len(w.came()) == n
		})
	}
	more("the delivery", 0)
	for i, c := range []struct {
		body    string
		entries int
	}{{`{"since":"` + began.UTC().Format(time.RFC3339) + `"}`, 3}, {`{"since":"10m"}`, 3}, {`{"position":2}`, 2}, {`{"eventId":"evt_3"}`, 1}} {
		a := w.perform(id, "replay", c.body, fmt.Sprint("k", i))
		if !strings.Contains(a.body, fmt.Sprintf(`"entries":%d`, c.entries)) {
			t.Fatalf("%s: %d %s", c.body, a.status, a.body)
		}
		more(c.body, c.entries)
	}
	for i, text := range []string{"since=10m&position=&cursor=", "position=1", "eventId=evt_1"} {
		if a := w.ask("POST", "/subscriptions/"+id+"/replay", fmt.Sprintf("key=f%d&%s", i, text), form); a.status != 303 {
			t.Fatalf("%s: %d %s", text, a.status, a.body)
		}
		w.untilPerformed(id)
		more(text, 3)
	}
	// What it would do is said first, by the API and by a page whose button does it; asking does nothing.
	if p := get[operator.Beginning](w, "/api/subscriptions/"+id+"/replay?eventId=evt_2"); p.Position != 2 || p.Entries != 2 || p.EventID != "evt_2" {
		t.Errorf("%+v", p)
	}
	preview := w.ask("GET", "/subscriptions/"+id+"/replay?since=&position=2&eventId=", "")
	if preview.status != 200 || !strings.Contains(preview.body, "Redeliver 2 events") || !strings.Contains(preview.body, `name="position" value="2"`) {
		t.Errorf("%d %s", preview.status, preview.body)
	}
	for _, q := range []string{"", "?position=1&since=1h", "?position=0", "?since=x", "?cursor=c", "?position=1&position=2"} {
		w.isProblem(q, w.ask("GET", "/api/subscriptions/"+id+"/replay"+q, ""), 400, "bad_request")
	}
	w.isProblem("nothing there", w.ask("GET", "/api/subscriptions/"+id+"/replay?eventId=x", ""), 404, "not_found")
	more("asking", 0)
	for i, bad := range []string{`{}`, `{"since":"yesterday"}`, `{"since":"-5m"}`, `{"since":"10m","position":1}`, `{"position":-1}`, `{"position":"1"}`} {
		w.isProblem(bad, w.ask("POST", "/api/subscriptions/"+id+"/replay", bad, key(fmt.Sprint("b", i))), 400, "bad_request")
	}
	w.isProblem("pause", w.ask("POST", "/api/subscriptions/"+id+"/pause", `{"since":"10m"}`, key("p")), 400, "bad_request")
	for i, bad := range []string{`{"position":4}`, `{"since":"2999-01-01T00:00:00Z"}`} {
		w.isProblem(bad, w.ask("POST", "/api/subscriptions/"+id+"/replay", bad, key(fmt.Sprint("i", i))), 400, "invalid")
	}
	w.isProblem("an id", w.ask("POST", "/api/subscriptions/"+id+"/replay", `{"eventId":"x"}`, key("x")), 404, "not_found")
	// By the console all of a filter get it again, from the time that was shown, and once whatever is pressed twice.
	page := w.ask("GET", "/act?verb=replay&since=10m&event=ping", "")
	if page.status != 200 || !strings.Contains(page.body, "Replay 1 subscription<") {
		t.Errorf("%d %s", page.status, page.body)
	}
	button := action(t, page)
	if !strings.Contains(button, "since=20") {
		t.Errorf("the time is not fixed: %s", button)
	}
	for range 2 {
		if a := w.ask("POST", button, "key=t", form); a.status != 200 || !strings.Contains(a.body, "<dt>Done or requested</dt><dd>1</dd>") {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.untilPerformed(id)
	}
	more("the replay of all", 3)

	// One under way is shown with its button, and is ended by that, by the API and with all of a filter.
	for i, end := range []func(k string) answered{
		func(k string) answered { return w.ask("POST", "/subscriptions/"+id+"/endreplay", "key="+k, form) },
		func(k string) answered { return w.ask("POST", "/api/subscriptions/"+id+"/endreplay", "", key(k)) },
		func(k string) answered {
			return w.ask("POST", "/act?verb=endreplay&event=ping", "key="+k, form)
		},
	} {
		k := fmt.Sprint("e", i)
		if a := w.ask("POST", "/api/subscriptions/"+id+"/pause", "", key(k+"pause")); a.status != 200 {
			t.Fatalf("pause: %d %s", a.status, a.body)
		}
		w.perform(id, "replay", `{"position":1}`, k+"replay") // it is paused, so nothing is delivered
		if a := w.ask("GET", "/subscriptions/"+id, ""); !strings.Contains(a.body, "3 entries left") || !strings.Contains(a.body, "End the replay") {
			t.Errorf("%s", a.body)
		}
		if a := w.ask("GET", "/act?verb=endreplay&event=ping", ""); !strings.Contains(a.body, "End 1 replay<") {
			t.Errorf("%s", a.body)
		}
		if a := end(k); a.status != 303 && a.status != 202 && a.status != 200 {
			t.Errorf("%d: %d %s", i, a.status, a.body)
		}
		w.until("its end", func() bool {
			got, err := w.es.Admin().Get(t.Context(), id)
			return err == nil && got.Replay == nil
		})
		if a := w.ask("POST", "/api/subscriptions/"+id+"/unpause", "", key(k+"u")); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	more("what was ended", 0)
	if a := w.ask("GET", "/subscriptions/"+id+"?done=accepted", ""); !strings.Contains(a.body, "The request is stored") || !strings.Contains(a.body, "end the replay") || strings.Contains(a.body, "End the replay") {
		t.Errorf("%s", a.body)
	}
	none := w.ask("POST", "/api/subscriptions/"+id+"/endreplay", "", key("none"))
	if w.isProblem("no replay", none, 404, "not_found"); !strings.Contains(none.body, "no replay of this subscription is running") {
		t.Errorf("%s", none.body)
	}
	if a := w.ask("GET", "/endpoints?host="+strings.TrimPrefix(w.endpoint.URL, "http://"), ""); !strings.Contains(a.body, `value="send"`) {
		t.Errorf("%s", a.body)
	}
}

// SRV-8: a test event goes to one subscription alone, says that it is one, and is like any other.
func TestSRV8TestEvent(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	w.subscribe("bob", "/b")
	path := "/api/subscriptions/" + id + "/test"
	a := w.ask("POST", path, `{"data":{"id":"x"}}`, key("1"))
	var sent struct{ EventID string }
	if err := json.Unmarshal([]byte(a.body), &sent); err != nil || a.status != 200 || !strings.HasPrefix(sent.EventID, "test_") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.until("the test event", func() bool { return len(w.came()) > 0 })
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if w.came()[0] != sent.EventID || !strings.HasPrefix(last, "/a ") || !strings.Contains(last, `"data":{"id":"x"}`) || !strings.Contains(last, `"io.github.mcpe-gen/test":true`) {
		t.Errorf("%q %s", w.came(), last)
	}
	w.until("its attempt", func() bool {
		l := get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts
		return len(l) == 1 && l[0].EventID == sent.EventID
	})
	// Pressed twice it is one, and by the console it is the same.
	w.ask("POST", path, `{"data":{"id":"x"}}`, key("1"))
	if a := w.ask("POST", "/subscriptions/"+id+"/test", "key=f&data="+url.QueryEscape(`{"id":"y"}`), form); a.status != 303 || !strings.HasSuffix(a.header.Get("Location"), "?done=test") {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.until("the second one", func() bool { return len(w.came()) == 2 })
	if note := w.ask("GET", "/subscriptions/"+id+"?done=test", ""); !strings.Contains(note.body, "The test event was emitted") || !strings.Contains(note.body, `name="data"`) {
		t.Errorf("%s", note.body)
	}
	for i, c := range []struct {
		body, code, detail string
	}{{`{}`, "bad_request", "data is missing"}, {`{"data":7}`, "invalid", "/data"}, {`{"data":{"id":"x"},"eventId":"e"}`, "bad_request", "eventId"}} {
		a := w.ask("POST", path, c.body, key(fmt.Sprint("b", i)))
		if w.isProblem(c.body, a, 400, c.code); !strings.Contains(a.body, c.detail) {
			t.Errorf("%s: %s", c.body, a.body)
		}
	}
	if a := w.ask("POST", "/subscriptions/"+id+"/test", "key=g&data={", form); a.status != 400 {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.isProblem("nobody", w.ask("POST", "/api/subscriptions/sub_x/test", `{"data":{}}`, key("n")), 404, "not_found")
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.audit[0]; e.Verb != "test" || e.EventID != sent.EventID || e.Subscription != id || e.Asked != "" {
		t.Errorf("%+v", e)
	}
	if len(w.ids) != 2 {
		t.Errorf("%q", w.ids)
	}
}

// What turns the direction of text is shown as what it is, and values of forms have it as it was: another text could
// stand there.
func TestDirectionOfText(t *testing.T) {
	w := newWorld(t)
	const principal = "ann\u202egpj.exe\u2066"
	id := w.subscribe(principal, "/a")
	for _, path := range []string{"/subscriptions", "/subscriptions/" + id, "/subscriptions?principal=" + url.QueryEscape(principal)} {
		a := w.ask("GET", path, "")
		if shown := `ann\u202egpj.exe\u2066`; a.status != 200 || !strings.Contains(a.body, shown) || strings.Contains(strings.ReplaceAll(a.body, `value="`+principal+`"`, ""), "\u202e") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if filtered := strings.Contains(path, "="); filtered != strings.Contains(a.body, `value="`+principal+`"`) {
			t.Errorf("%s: the filter's value: %s", path, a.body)
		}
	}
}

// SRV-8: the page of a subscription whose record cannot be read says so and why, and offers nothing that cannot be
// done; so do lists, filters and the API.
func TestSRV8Unreadable(t *testing.T) {
	w := newWorld(t)
	id := "sub_damaged"
	if _, err := w.store.PutSubscription(t.Context(), store.Subscription{ID: id, Principal: "bob", URL: w.endpoint.URL, Event: "ping", Arguments: []byte(`{}`), Generation: 5, CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w.store.damaged.Store(&id)
	for _, path := range []string{"/subscriptions/" + id, "/subscriptions?state=unreadable", "/subscriptions?failing=true"} {
		a := w.ask("GET", path, "")
		if a.status != 200 || !strings.Contains(a.body, `<span class="chip bad">unreadable</span>`) || !strings.Contains(a.body, engine.UnreadableKey) ||
			strings.Contains(a.body, id+"/pause") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/api/subscriptions/" + id, "/api/subscriptions?state=unreadable"} {
		if a := w.ask("GET", path, ""); a.status != 200 || !strings.Contains(a.body, `"state":"unreadable"`) || !strings.Contains(a.body, `"unreadable":"`+engine.UnreadableKey) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := w.ask("GET", "/api/subscriptions?state=active", ""); strings.Contains(a.body, id) {
		t.Errorf("among the active ones: %s", a.body)
	}
	for verb, body := range map[string]string{"pause": "", "unpause": "", "resume": "", "end": "", "endreplay": "", "replay": `{"since":"1h"}`, "send": `{"eventId":"1"}`, "test": `{"data":{"id":"1"}}`} {
		a := w.ask("POST", "/api/subscriptions/"+id+"/"+verb, body, key(verb))
		if w.isProblem(verb, a, 409, "unreadable"); !strings.Contains(a.body, engine.UnreadableKey) {
			t.Errorf("%s: %s", verb, a.body)
		}
	}
	live := w.subscribe("ann", "/live")
	w.store.damaged.Store(&live)
	for _, verb := range []string{"pause", "unpause", "resume", "end"} {
		w.isProblem(verb, w.ask("POST", "/api/subscriptions/"+live+"/"+verb, "", key(verb+"-live")), 409, "unreadable")
	}
}

// SRV-8, OCC-4: the largest payload that a webhook carries, nested deeply too, makes no page of more than it can be
// read on. By hand it is sent once more, whole; what is too large for a request of the API is refused, and nothing is
// emitted.
func TestSRV8LargePayloads(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	var err error
	w.handler, err = admin.NewHandler(w.es, admin.Options{Hosts: []string{"admin.test"}, ShowPayloads: true, Authenticate: func(*http.Request) (string, error) { return "olga", nil }})
	if err != nil {
		t.Fatal(err)
	}
	const most = 257_000 // about what a webhook carries
	deep := func(n int) string {
		return `{"id":"1","x":` + strings.Repeat("[", 400) + strings.Repeat("0,", n) + "0" + strings.Repeat("]", 400) + "}"
	}
	long := `{"id":"` + strings.Repeat("é", most/2-8) + `"}`
	for i, c := range []struct {
		data string
		cut  bool
	}{{long, true}, {deep(most/2 - 1000), true}, {deep(1000), false}} {
		before := len(w.came())
		eventID, err := w.es.Admin().Test(t.Context(), id, json.RawMessage(c.data))
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		arrived := func(n int) func() bool { return func() bool { return len(w.came()) == before+n } }
		w.until("the delivery", arrived(1))
		w.until("its attempt", func() bool {
			made := get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts
			return len(made) > 0 && made[0].EventID == eventID
		})
		body := func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.last
		}
		first := body()
		if !strings.Contains(first, c.data) {
			t.Errorf("%d: %d bytes arrived", i, len(first))
		}
		page := w.ask("GET", fmt.Sprint("/types/ping/occurrences/", i+1), "")
		if page.status != 200 || len(page.body) > 400<<10 || strings.Contains(page.body, "The whole payload") != c.cut || strings.Contains(page.body, "\uFFFD") {
			t.Errorf("%d: %d, a page of %d bytes", i, page.status, len(page.body))
		}
		api := w.ask("GET", fmt.Sprint("/api/types/ping/occurrences/", i+1), "")
		if api.status != 200 || !strings.Contains(api.body, c.data) {
			t.Errorf("%d: %d by the API, %d bytes", i, api.status, len(api.body))
		}
		w.perform(id, "send", `{"eventId":"`+eventID+`"}`, fmt.Sprint("k", i))
		if again := body(); !arrived(2)() || again != first {
			t.Errorf("%d: %d came, %d bytes sent again of %d", i, len(w.came())-before, len(again), len(first))
		}
	}
	w.isProblem("a large test event", w.ask("POST", "/api/subscriptions/"+id+"/test", `{"data":`+long+`}`, key("large")), 400, "bad_request")
	if head := w.es.Admin().EventTypes(t.Context())[0].Head; head != 3 {
		t.Errorf("%d were emitted, want 3", head)
	}
}
