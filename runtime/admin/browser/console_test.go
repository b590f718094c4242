package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// busy is a site with something on every page.
func busy(t *testing.T) (s *site, good, bad string) {
	t.Helper()
	s = newSite(t, "Fires when an order was placed.")
	good = s.subscribe("ann", "/hooks/orders?token=hidden")
	s.emit("ord_1", "ord_2", "ord_3")
	until(t, "deliveries", func() bool { return s.took.Load() == 3 })
	s.refuse.Store(true)
	bad = s.subscribe("bob", "/hooks/failing")
	s.emit("ord_4")
	until(t, "the suspension", func() bool { return s.state(bad) == "suspended" })
	s.refuse.Store(false)
	s.poll("carol")
	if _, err := s.es.Admin().Resume(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	return s, good, bad
}

// poll makes the principal a poller.
func (s *site) poll(principal string) {
	s.t.Helper()
	_, err := port.Of(s.es).Call(s.t.Context(), port.Request{Method: wire.MethodPoll, Params: json.RawMessage(`{"name":"order.created","cursor":null}`),
		ID: json.RawMessage("1"), Principal: principal, Stateless: true})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Each page loads without an error and asks no other host, fits on a phone, is dark where that is asked
// for, and everything that can be pressed or filled in has a name for a screen reader.
func TestPages(t *testing.T) {
	s, good, bad := busy(t)
	for _, c := range []struct{ path, heading, shows string }{
		{"/", "Overview", bad},
		{"/types/order.created", "order.created", `"properties"`},
		{"/subscriptions", "Subscriptions", good},
		{"/subscriptions?state=suspended", "Subscriptions", bad},
		{"/subscriptions/" + good, "Subscription " + good, "ord_3"},
		{"/subscriptions?failing=true", "Subscriptions", bad},
		{"/endpoints", "Endpoints", "127.0.0.1"},
		{"/occurrences?eventId=none", "Find an event", "No event has this id."},
		{"/events?since=10m", "Events", "ord_4"},
		{"/events?since=00:00&until=00:00:01", "Events", "No events happened between these times."},
		{"/latency", "Latency", "order.created"},
		{"/types/order.created/occurrences/4", "Event ord_4", "Matching webhook subscriptions"},
		{"/subscriptions/" + good + "/replay?position=1", "Replay of " + good, "Events to redeliver"},
		{"/audit", "Audit", "No matches."},
		{"/act?verb=pause&all=true", "Pause subscriptions", good},
		{"/act?verb=send&since=10m&all=true", "Resend failed events", "There is nothing to do."},
		{"/connections", "Connections", "carol"},
		{"/outbox", "Rejected events", "No event was rejected."},
		{"/tail?event=order.created", "Live tail", "Connected"},
	} {
		p := s.open(c.path)
		if got := p.text("h1"); got != c.heading {
			t.Errorf("%s: %q", c.path, got)
		}
		until(t, c.path+" shows "+c.shows, func() bool { return strings.Contains(p.text("main"), c.shows) })
		if strings.Contains(eval[string](p, "document.documentElement.outerHTML"), "hidden</") {
			t.Errorf("%s shows a callback's query", c.path)
		}
		light := eval[string](p, "getComputedStyle(document.querySelector('a')).color")
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
		if dark := eval[string](p, "getComputedStyle(document.querySelector('a')).color"); dark == light {
			t.Errorf("%s: links are %s in the dark too", c.path, dark)
		}
		p.do(chromedp.EmulateViewport(360, 640, chromedp.EmulateMobile))
		if w := eval[int](p, "document.documentElement.scrollWidth"); w > 360 {
			t.Errorf("%s is %d wide on a phone of 360", c.path, w)
		}
		if found := p.named(c.path); found["navigation"] != 1 {
			t.Errorf("%s: landmarks %v", c.path, found)
		}
	}
}

// Every button and link of a page, and every cell of its tables, is within the width of the screen: at 1280 pixels, and
// on a phone of 390 (N13).
func TestWithinReach(t *testing.T) {
	s, good, bad := busy(t)
	if err := s.es.Admin().Pause(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/subscriptions", "/subscriptions/" + good, "/subscriptions/" + bad, "/types/order.created/occurrences/4", "/endpoints", "/latency",
		"/events?since=10m", "/connections", "/audit", "/act?verb=pause&all=true", "/subscriptions/" + good + "/replay?position=1"} {
		p := s.open(path)
		for _, width := range []int64{1280, 390} {
			p.do(chromedp.EmulateViewport(width, 800))
			what := "main button, main a, main input:not([type=hidden]), main textarea, main .stack td"
			if width > 400 {
				what = "main button, main a"
			}
			out := eval[[]string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => {
				const r = e.getBoundingClientRect(); return r.width > 0 && (r.left < 0 || r.right > %d)
			}).map(e => e.outerHTML.slice(0, 120))`, what, width))
			if len(out) > 0 {
				t.Errorf("%s at %d: out of sight are %q", path, width, out)
			}
		}
	}
}

// On a phone of 390 pixels, the page of a subscription with 100 attempts is at most eight screens long, its actions are above
// the attempts, and a row of the events is short. No page is wider than the screen.
func TestPhone(t *testing.T) {
	s := newSite(t, "Fires when an order was placed.")
	id := s.subscribe("ann", "/hooks/orders")
	for i := range 100 {
		s.emit(fmt.Sprintf("evt_%032d", i))
	}
	until(t, "the attempts", func() bool { all, err := s.es.Admin().Attempts(t.Context(), id); return err == nil && len(all) == 100 })
	phone := func(path string) *tab {
		p := s.open(path)
		p.do(chromedp.EmulateViewport(390, 800))
		if w := eval[int](p, "document.documentElement.scrollWidth"); w > 390 {
			t.Errorf("%s is %d wide", path, w)
		}
		return p
	}
	p := phone("/subscriptions/" + id)
	if h := eval[int](p, "document.documentElement.scrollHeight"); h > 8*800 {
		t.Errorf("the page of a subscription is %d high", h)
	}
	attempts := eval[float64](p, "document.querySelector('[aria-label=Attempts]').getBoundingClientRect().top")
	for _, verb := range []string{"pause", "resume", "replay", "end"} {
		if y := eval[float64](p, fmt.Sprintf("document.querySelector('form[action$=\"/%s\"] button').getBoundingClientRect().bottom", verb)); y > attempts {
			t.Errorf("%s is at %v, below the attempts at %v", verb, y, attempts)
		}
	}
	p = phone("/events?since=10m")
	if h := eval[float64](p, "Math.max(...[...document.querySelectorAll('tbody tr')].map(row => row.getBoundingClientRect().height))"); h > 160 {
		t.Errorf("a row of the events is %v high", h)
	}
	phone("/subscriptions/" + id + "?attempts=all")
	phone("/types/order.created/occurrences/1")
}

// named looks for what has no name in the tree that screen readers get, and returns how much of each role it has.
func (p *tab) named(path string) (found map[string]int) {
	p.t.Helper()
	// Decoded by hand: the library knows no names of properties that newer browsers have.
	type value struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name value
		}
	}
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		var raw jsontext.Value
		if err := cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &raw); err != nil {
			return err
		}
		return json.Unmarshal(raw, &tree)
	}))
	found = map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role := fmt.Sprint(n.Role.Value)
		found[role]++
		switch role {
		case "button", "link", "textbox", "combobox", "checkbox", "region", "navigation":
			if name, _ := n.Name.Value.(string); strings.TrimSpace(name) == "" {
				p.t.Errorf("%s: a %s has no name", path, role)
			}
		}
	}
	if found["heading"] == 0 || found["main"] != 1 {
		p.t.Errorf("%s: landmarks %v", path, found)
	}
	return found
}

// By keyboard alone: the first stop skips to the content, every control can be reached and its focus seen,
// and Enter presses it.
func TestKeyboard(t *testing.T) {
	s, good, _ := busy(t)
	p := s.open("/subscriptions/" + good)
	p.do(chromedp.KeyEvent(kb.Tab))
	if got := eval[string](p, "document.activeElement.textContent"); got != "Skip to content" {
		t.Errorf("the first stop is %q", got)
	}
	controls := eval[int](p, "document.querySelectorAll('a,button,input:not([type=hidden]),select,[tabindex]').length")
	seen := map[string]bool{}
	paused := false
	for range controls + 2 {
		name := eval[string](p, "document.activeElement.outerHTML")
		if style := eval[string](p, "getComputedStyle(document.activeElement).outlineStyle"); style == "none" && name != "<body>" {
			t.Errorf("the focus does not show on %.80s", name)
		}
		seen[name] = true
		if strings.Contains(name, ">Pause<") {
			paused = true
			break
		}
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	if !paused {
		t.Fatalf("the button Pause cannot be reached; %d of %d stops", len(seen), controls)
	}
	if _, err := chromedp.RunResponse(p.ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	if s.state(good) != "paused" {
		t.Error("Enter pressed nothing")
	}
}

// Axe finds nothing wrong with any page, light or dark, what answers an unknown page or id as well (E17).
func TestAccessible(t *testing.T) {
	axe := readAxe(t)
	s, good, bad := busy(t)
	if err := s.es.Admin().Pause(t.Context(), good); err != nil { // so that a replay is under way
		t.Fatal(err)
	}
	at, err := s.es.Admin().Locate(t.Context(), "order.created", operator.Point{Position: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.es.Admin().Replay(t.Context(), good, at.Cursor, 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the replay", func() bool { i, err := s.es.Admin().Get(t.Context(), good); return err == nil && i.Replay != nil })
	for _, path := range []string{"/", "/types/order.created", "/subscriptions", "/subscriptions?state=suspended", "/subscriptions/" + good, "/subscriptions/" + bad,
		"/connections", "/tail?event=order.created", "/endpoints", "/endpoints?host=127.0.0.1", "/occurrences?eventId=ord_4", "/types/order.created/occurrences/4",
		"/subscriptions/" + good + "/replay?position=1", "/act?verb=endreplay&all=true", "/act?verb=resume&all=true", "/audit", "/outbox", "/nowhere", "/subscriptions/sub_x", "/types/unknown", "/subscriptions?state=odd"} {
		p := s.open("/")
		p.expectErrors(true) // a status of 404 is one
		p.visit(path)
		p.accessible(path, axe)
	}
}

// Ids of the usual size stay whole (E17).
func TestIDsStayWhole(t *testing.T) {
	s, good, _ := busy(t)
	for path, cell := range map[string]string{"/subscriptions": "tbody td a", "/subscriptions/" + good: "tbody td code", "/connections": "tbody td.id"} {
		p := s.open(path)
		for _, width := range []int64{1100, 700} {
			p.do(chromedp.EmulateViewport(width, 800))
			if n := eval[int](p, fmt.Sprintf(`(e => {
				const text = document.createRange()
				text.selectNodeContents(e)
				return new Set([...text.getClientRects()].map(line => line.top)).size
			})(document.querySelector(%q))`, cell)); n != 1 {
				t.Errorf("%s, %d wide: an id has %d lines", path, width, n)
			}
		}
	}
}

// Each action by its button.
func TestActions(t *testing.T) {
	s, good, bad := busy(t)
	cursor := eval[string](s.open("/subscriptions/"+good), "document.querySelectorAll('dd code')[1].textContent")
	form := func(id, verb string) string { return fmt.Sprintf("form[action$='/%s/%s'] button", id, verb) }
	p := s.open("/subscriptions/" + good)
	p.press(form(good, "pause"))
	if got := p.text("[role=status]"); s.state(good) != "paused" || !strings.Contains(got, "are paused") {
		t.Errorf("pause: %s, %q", s.state(good), got)
	}
	p.press(form(good, "unpause"))
	if s.state(good) != "active" {
		t.Errorf("unpause: %s", s.state(good))
	}
	// A double click sends its form twice, with one key.
	until(t, "a quiet endpoint", func() bool { n := s.took.Load(); time.Sleep(300 * time.Millisecond); return n == s.took.Load() })
	before := s.took.Load()
	p.do(chromedp.DoubleClick("button[aria-label='Resend ord_2']", chromedp.ByQuery))
	until(t, "it says so", func() bool { return strings.Contains(p.text("[role=status]"), "request is stored") })
	time.Sleep(300 * time.Millisecond) // for a second one, which must not come
	if n := s.took.Load() - before; n != 1 {
		t.Errorf("sent %d times", n)
	}
	s.emit("ord_5", "ord_6")
	until(t, "their delivery", func() bool { return s.took.Load() >= before+3 })
	p.do(chromedp.SendKeys("input[name=cursor]", cursor, chromedp.ByQuery))
	p.press("form[method=post][action$='/replay'] button")
	until(t, "the replay", func() bool { return s.took.Load() >= before+5 })
	p.visit("/subscriptions/" + bad)
	p.press(form(bad, "resume"))
	if s.state(bad) != "active" {
		t.Errorf("resume: %s", s.state(bad))
	}
	p.visit("/connections")
	p.press("form[action$='/disconnect'] button")
	if got := p.text("tbody"); !strings.Contains(got, "No connection is open") {
		t.Errorf("disconnect: %q", got)
	}
	// What cannot be undone needs its box, which the browser asks for.
	p.visit("/subscriptions/" + good)
	p.do(chromedp.Click(form(good, "end"), chromedp.ByQuery))
	time.Sleep(300 * time.Millisecond) // for the form, which must not be sent
	if s.state(good) != "active" {
		t.Error("ended without the box")
	}
	p.do(chromedp.Click(fmt.Sprintf("form[action$='/%s/end'] input[name=sure]", good), chromedp.ByQuery))
	p.press(form(good, "end"))
	if s.state(good) != "absent" || p.text("h1") != "Subscriptions" {
		t.Errorf("end: %s", s.state(good))
	}
	p.do(chromedp.SendKeys("form[action$='/revoke'] input[name=principal]", "bob", chromedp.ByQuery),
		chromedp.Click("form[action$='/revoke'] input[name=sure]", chromedp.ByQuery))
	p.press("form[action$='/revoke'] button")
	if s.state(bad) != "absent" {
		t.Errorf("revoke: %s", s.state(bad))
	}
	// On an ended one the page says so.
	p.expectErrors(true)
	p.visit("/subscriptions/" + good)
	if got := p.text("body"); !strings.Contains(got, "not found") {
		t.Errorf("after its end: %.200s", got)
	}
}

// What a filter takes is paused from its page by the button of the next one, which then shows what was done.
func TestMany(t *testing.T) {
	s, good, bad := busy(t)
	for i := range 55 {
		s.subscribe("dan", fmt.Sprint("/many/", i))
	}
	p := s.open("/subscriptions?principal=dan")
	p.press("a[href*='/act?verb=pause']")
	if got := p.text("main"); !strings.Contains(got, "55") || strings.Contains(got, good) {
		t.Errorf("before: %q", got)
	}
	p.press("form[method=post] button")
	if got := p.text("main"); !strings.Contains(got, "Completed subscriptions") || !strings.Contains(got, "Continue with the next page") {
		t.Errorf("the first page: %q", got)
	}
	p.press("form[method=post] button")
	if got := p.text("main"); !strings.Contains(got, "This was the last page.") {
		t.Errorf("the last page: %q", got)
	}
	paused, _, err := s.es.Admin().Find(t.Context(), operator.Filter{State: operator.StatePaused}, "", 100)
	if err != nil || len(paused) != 55 || s.state(good) != "active" || s.state(bad) == "paused" {
		t.Errorf("%d are paused, %v", len(paused), err)
	}
}

// One click on the URL of an endpoint selects the whole URL, so that it can be copied.
func TestSelectEndpoint(t *testing.T) {
	s := newSite(t, "Orders.")
	id := s.subscribe("ann", "/hooks/orders")
	p := s.open("/subscriptions/" + id)
	p.do(chromedp.Click(".selectable", chromedp.ByQuery))
	if got, want := eval[string](p, "getSelection().toString()"), s.endpoint.URL+"/hooks/orders"; got != want {
		t.Errorf("selected is %q, want %q", got, want)
	}
}

// Text that subscribers and services choose stays text, wherever it is shown.
func TestMarkupStaysText(t *testing.T) {
	const evil = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>"'>`
	s := newSite(t, "An order. "+evil)
	id := s.subscribe("ann"+evil, "/a'%22%3E%3Cimg%20src=x%3E")
	p := s.open("/tail")
	until(t, "the connection", func() bool { return strings.Contains(p.text("#state"), "Connected") })
	const evilID = `<img/src=x/onerror=document.title='owned'>` // ids have no spaces
	s.emit(evilID)
	until(t, "the occurrence", func() bool { return strings.Contains(p.text("#tail tbody"), evilID) })
	until(t, "the delivery", func() bool { return s.took.Load() == 1 })
	s.poll("carol" + evil)
	until(t, "the attempt", func() bool { all, _ := s.es.Admin().Attempts(t.Context(), id); return len(all) == 1 })
	check := func(path string) {
		t.Helper()
		if n := eval[int](p, "document.querySelectorAll('img, script:not([src$=\"/tail.js\"]), [onerror], [style], iframe').length"); n != 0 {
			t.Errorf("%s: %d elements of others' making", path, n)
		}
		if title := eval[string](p, "document.title"); strings.Contains(title, "owned") {
			t.Errorf("%s: a script of others ran", path)
		}
	}
	check("/tail")
	for _, path := range []string{"/", "/types/order.created", "/subscriptions", "/subscriptions/" + id, "/connections"} {
		p.visit(path)
		if !strings.Contains(p.text("body"), "<img") {
			t.Errorf("%s does not show it as text", path)
		}
		check(path)
	}
}

// With 10,000 subscriptions the overview and the lists answer, and the pages hold each of them once.
func TestTenThousandSubscriptions(t *testing.T) {
	s := newSite(t, "Many listen.")
	const n = 10_000
	for i := range n {
		s.subscribe(fmt.Sprint("p", i%100), fmt.Sprint("/", i))
	}
	p := s.open("/")
	if got := p.text("tbody"); !strings.Contains(got, "10000") {
		t.Errorf("the overview: %q", got)
	}
	p.visit("/subscriptions?limit=1000")
	seen := map[string]bool{}
	for range n/1000 + 1 {
		for _, id := range eval[[]string](p, "[...document.querySelectorAll('tbody td:first-child')].map(e => e.textContent)") {
			if seen[id] {
				t.Fatalf("%s is on two pages", id)
			}
			seen[id] = true
		}
		if !eval[bool](p, "[...document.links].some(a => a.textContent === 'Next page')") {
			break
		}
		next := eval[string](p, "[...document.links].find(a => a.textContent === 'Next page').getAttribute('href')")
		p.visit("/subscriptions" + next)
	}
	if len(seen) != n {
		t.Errorf("%d subscriptions on all pages", len(seen))
	}
	p.visit("/subscriptions?principal=p7")
	if got := eval[int](p, "document.querySelectorAll('tbody tr').length"); got != 100 {
		t.Errorf("%d of one principal", got)
	}
}

// The live tail shows what passes, can be paused, keeps a bounded number of rows, and goes on by itself
// after the server has died.
func TestLiveTail(t *testing.T) {
	s := newSite(t, "Orders.")
	p := s.open("/tail")
	state := func() string { return p.text("#state") }
	rows := func() int { return eval[int](p, "document.querySelectorAll('#tail tbody tr').length") }
	until(t, "the connection", func() bool { return strings.HasPrefix(state(), "Connected") })
	s.emit("first")
	until(t, "an occurrence", func() bool { return rows() == 1 })
	if got := p.text("#tail tbody"); !strings.Contains(got, "order.created") || !strings.Contains(got, `{"id":"first"}`) {
		t.Errorf("%q", got)
	}
	p.do(chromedp.Click("#pause", chromedp.ByQuery))
	if eval[string](p, "document.getElementById('pause').getAttribute('aria-pressed')") != "true" {
		t.Error("the button does not say that it is pressed")
	}
	s.emit("second")
	time.Sleep(time.Second) // for a row, which must not come
	if n := rows(); n != 1 {
		t.Errorf("%d rows while it is paused", n)
	}
	p.do(chromedp.Click("#pause", chromedp.ByQuery))
	until(t, "what came meanwhile", func() bool { return rows() == 2 && strings.Contains(p.text("#tail tbody tr"), "second") })
	for i := range 700 {
		s.emit(fmt.Sprint("n", i))
	}
	until(t, "the last one", func() bool { return strings.Contains(p.text("#tail tbody tr"), "n699") })
	if n := rows(); n != 500 {
		t.Errorf("%d rows are kept", n)
	}
	p.do(chromedp.Click("#clear", chromedp.ByQuery))
	if n := rows(); n != 0 {
		t.Errorf("%d rows after Clear", n)
	}
	p.expectErrors(true)
	s.die()
	until(t, "it says that the connection is lost", func() bool { return strings.HasPrefix(state(), "Connection lost") })
	s.live()
	until(t, "it is connected again", func() bool { return strings.HasPrefix(state(), "Connected") })
	s.emit("after")
	until(t, "it goes on", func() bool { return strings.Contains(p.text("#tail tbody"), "after") })
	// A press that meets a dead server changes nothing, and the operator sees the browser say so.
	s.die()
	if err := chromedp.Run(p.ctx, chromedp.Navigate(s.url("/"))); err == nil || !strings.Contains(err.Error(), "ERR_CONNECTION") {
		t.Errorf("a dead server: %v", err)
	}
}

// TestScreenshots writes those of docs/images with -update, and else holds that they can be made.
func TestScreenshots(t *testing.T) {
	s, good, _ := busy(t)
	for _, c := range []struct {
		name, path, theme string
		width, height     int64
	}{
		{"console-overview", "/", "light", 1280, 540},
		{"console-subscription", "/subscriptions/" + good, "dark", 1100, 560},
		{"console-events", "/events?since=10m", "light", 1280, 760},
		{"console-tail", "/tail", "light", 1280, 440},
		{"console-phone-event", "/types/order.created/occurrences/4", "light", 390, 1250},
		{"console-phone", "/subscriptions/" + good, "light", 390, 800},
		{"console-phone-dark", "/subscriptions?failing=true", "dark", 390, 880},
	} {
		p := s.open(c.path)
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.theme}}),
			chromedp.EmulateViewport(c.width, c.height), input.DispatchMouseEvent(input.MouseMoved, 0, 0))
		if c.path == "/tail" {
			until(t, "the connection", func() bool { return strings.HasPrefix(p.text("#state"), "Connected") })
			s.emit("ord_101", "ord_102", "ord_103")
			until(t, "occurrences", func() bool { return strings.Contains(p.text("#tail tbody"), "ord_103") })
		}
		var png []byte
		p.do(chromedp.CaptureScreenshot(&png))
		if len(png) < 5000 || len(png) > 150_000 {
			t.Errorf("%s has %d bytes", c.name, len(png))
		}
		if *update {
			if err := os.WriteFile(filepath.Join("..", "..", "..", "docs", "images", c.name+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
