package admin_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
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
		"url=/hooks/bob": 1, "url=hidden": 0, "minBehind=0": 5, "minBehind=1": 0, "after=zzz": 0, "principal=ann&event=ping&limit=1": 1} {
		if p := get[subscriptions](w, "/api/subscriptions?"+query); len(p.Subscriptions) != want || p.Next != "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "state=gone", "minBehind=-1", "minBehind=x", "after=a%20b", "after=%00", "limit=1&limit=2", "other=1", "principal=%ff", "url=" + strings.Repeat("a", 3000)} {
		w.isProblem(query, w.ask("GET", "/api/subscriptions?"+query, ""), 400, "bad_request")
	}
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
		ByHand  *bool
	}
}

// What was sent is shown, one event is sent again, once whatever is pressed twice, and written down.
func TestSend(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	list := func() attempts { return get[attempts](w, "/api/subscriptions/"+id+"/attempts") }
	w.until("the delivery", func() bool { return len(list().Attempts) == 1 })
	if a := list().Attempts[0]; a.EventID != "evt_1" || a.Number != 1 || a.Status != 200 || a.TookMs == nil || a.Took != nil || a.ByHand == nil || *a.ByHand {
		t.Errorf("%+v", a)
	}
	path := "/api/subscriptions/" + id + "/send"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := w.ask("POST", path, `{"eventId":"evt_1"}`, key("k1")); a.status != 200 || !strings.Contains(a.body, `"number":2`) || !strings.Contains(a.body, `"byHand":true`) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if got := w.came(); len(got) != 2 || got[1] != "evt_1" {
		t.Errorf("%q came", got)
	}
	w.isProblem("the same key for another", w.ask("POST", path, `{"eventId":"evt_2"}`, key("k1")), 422, "key_reused")
	if a := w.ask("POST", path, `{"eventId":"evt_1"}`, key("k2")); a.status != 200 || !strings.Contains(a.body, `"number":3`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if len(w.audit) != 2 {
		t.Fatalf("%+v", w.audit)
	}
	if r := w.audit[0]; r.Actor != "olga" || r.Action.Verb != admin.Send || r.Action.Subscription != id || r.Action.Principal != "ann" || r.Action.Event != "ping" ||
		r.EventID != "evt_1" || r.Key != "k1" || r.Status != 200 || r.At.IsZero() {
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
		{"GET", "/nowhere", 404, "there is nothing at this path"},
		{"GET", "/subscriptions/sub_x", 404, "the subscription: it is not there, or not any more"},
		{"GET", "/types/unknown", 404, "the event type: it is not there, or not any more"},
		{"GET", "/tail?event=unknown", 404, "the event type: it is not there, or not any more"},
		{"GET", "/subscriptions?state=odd", 400, "state is active, suspended or paused"},
		{"GET", "/connections?limit=0", 400, "limit is a number from 1 to 1000"},
		{"POST", "/connections", 405, "this takes GET"},
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

// Beside an attempt that is under way nothing is sent again; the page tells who asked for which (E12).
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
	first := make(chan answered)
	go func() { first <- w.ask("POST", path+"/send", `{"eventId":"evt_1"}`, key("k1")) }()
	w.until("the second attempt", func() bool { return len(w.came()) == 2 })
	w.isProblem("beside it", w.ask("POST", path+"/send", `{"eventId":"evt_1"}`, key("k2")), 409, "under_way")
	if a := w.ask("POST", "/subscriptions/"+id+"/send", "key=k3&eventId=evt_1", form); a.status != 409 || !strings.Contains(a.body, "another attempt at this event is under way") {
		t.Errorf("%d %s", a.status, a.body)
	}
	close(hold)
	if a := <-first; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.until("both are kept", func() bool { return len(get[attempts](w, path+"/attempts").Attempts) == 2 })
	page := w.ask("GET", "/subscriptions/"+id, "").body
	if strings.Count(page, "<td>operator</td>") != 1 || strings.Count(page, "<td>schedule</td>") != 1 || len(w.came()) != 2 {
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
		if a := w.ask("POST", "/api/subscriptions/"+id+"/"+step.verb, "", key("p"+string(rune('0'+i)))); a.status != 200 || state() != step.want {
			t.Errorf("%s: %d %s, now %s", step.verb, a.status, a.body, state())
		}
		if p := get[subscriptions](w, "/api/subscriptions?principal=ann&state="+string(step.want)); len(p.Subscriptions) != 1 {
			t.Errorf("%s: %+v", step.verb, p)
		}
	}
	w.refuse.Store(false)
	if a := w.ask("POST", "/api/subscriptions/"+id+"/resume", "", key("1")); a.status != 200 || state() != operator.StateActive {
		t.Errorf("%d %s", a.status, a.body)
	}
	before := len(w.came())
	if a := w.ask("POST", "/api/subscriptions/"+id+"/replay", `{"cursor":"`+start+`"}`, key("2")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.until("the replay", func() bool { return len(w.came()) > before })
	if a := w.ask("POST", "/api/subscriptions/"+id+"/end", "", key("3")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.isProblem("after its end", w.ask("GET", "/api/subscriptions/"+id, ""), 404, "not_found")
	// Pressed twice is done once, and says so.
	if a := w.ask("POST", "/api/subscriptions/"+id+"/end", "", key("3")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
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
	if err := w.es.Admin().End(t.Context(), gone, nil); err != nil {
		t.Fatal(err)
	}
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
	if a := w.ask("GET", "/subscriptions/"+id, ""); a.status != 200 || !strings.Contains(a.body, "None are kept") {
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
	if len(all) != 5 || all[0][1] == all[1][1] {
		t.Fatalf("%q", all)
	}
	press := func() answered {
		return w.ask("POST", "/ops/subscriptions/"+id+"/send", url.Values{"key": {all[4][1]}, "eventId": {"evt_<i>"}}.Encode(), form)
	}
	for range 2 { // pressed twice
		if a := press(); a.status != 303 || a.header.Get("Location") != "/ops/subscriptions/"+id+"?done=send" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	w.handler = old
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
	if a := w.ask("POST", "/subscriptions/"+id+"/resume", "key=e3", form); a.status != 404 || !strings.Contains(a.body, "not there") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
