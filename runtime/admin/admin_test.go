package admin_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A handler that anybody could reach is not made.
func TestOptions(t *testing.T) {
	w := newWorld(t)
	ok := admin.Tokens(map[string]string{"olga": "secret"})
	for name, o := range map[string]admin.Options{
		"no Authorize": {Hosts: []string{"admin.test"}},
		"no Hosts":     {Authorize: ok},
		"a URL":        {Authorize: ok, Hosts: []string{"http://admin.test/"}},
		"a wildcard":   {Authorize: ok, Hosts: []string{"*"}},
	} {
		if _, err := admin.NewHandler(w.es, o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := admin.NewHandler(nil, admin.Options{Authorize: ok, Hosts: []string{"admin.test"}}); err == nil {
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
	if a := list().Attempts[0]; a.EventID != "evt_1" || a.Number != 1 || a.Status != 200 || a.TookMs == nil || a.Took != nil {
		t.Errorf("%+v", a)
	}
	path := "/api/subscriptions/" + id + "/send"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := w.ask("POST", path, `{"eventId":"evt_1"}`, key("k1")); a.status != 200 || !strings.Contains(a.body, `"number":2`) {
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

func TestActions(t *testing.T) {
	w := newWorld(t)
	id, other := w.subscribe("ann", "/a"), w.subscribe("bob", "/b")
	start := *get[server.WebhookInfo](w, "/api/subscriptions/"+id).Cursor
	w.refuse.Store(true)
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	state := func() server.State { return get[server.WebhookInfo](w, "/api/subscriptions/"+id).State }
	w.until("the suspension", func() bool { return state() == server.StateSuspended })
	if p := get[subscriptions](w, "/api/subscriptions?state=suspended&principal=ann&minBehind=1"); len(p.Subscriptions) != 1 {
		t.Errorf("%+v", p)
	}
	for i, step := range []struct {
		verb string
		want server.State
	}{{"pause", server.StatePaused}, {"resume", server.StatePaused}, {"pause", server.StatePaused}, {"unpause", server.StateActive}} {
		if a := w.ask("POST", "/api/subscriptions/"+id+"/"+step.verb, "", key("p"+string(rune('0'+i)))); a.status != 200 || state() != step.want {
			t.Errorf("%s: %d %s, now %s", step.verb, a.status, a.body, state())
		}
		if p := get[subscriptions](w, "/api/subscriptions?principal=ann&state="+string(step.want)); len(p.Subscriptions) != 1 {
			t.Errorf("%s: %+v", step.verb, p)
		}
	}
	w.refuse.Store(false)
	if a := w.ask("POST", "/api/subscriptions/"+id+"/resume", "", key("1")); a.status != 200 || state() != server.StateActive {
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
	w.isProblem("the document", w.ask("GET", "/openapi.yaml", ""), 403, "forbidden")
	w.isProblem("connections", w.ask("GET", "/api/connections", ""), 403, "forbidden")
	if a := w.ask("GET", "/subscriptions/"+id, ""); a.status != 200 || !strings.Contains(a.body, "None are kept") {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.deny = func(admin.Action) error { return admin.ErrUnauthenticated }
	a := w.ask("GET", "/", "")
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
		actor, err := f(r, admin.Action{})
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
