package admin

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

//go:embed page
var pageFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"when":   when,
	"took":   inWords,
	"ofMs":   func(ms float64) string { return inWords(time.Duration(ms * float64(time.Millisecond))) },
	"tabs":   func() []tab { return tabs },
	"https":  func(s string) bool { return strings.HasPrefix(s, "https://") },
	"key":    rand.Text,
	"hostOf": operator.HostOf,
	"rate":   func(perMinute float64) string { return strconv.FormatFloat(perMinute, 'f', 1, 64) },
	"join":   strings.Join,
	"span":   func(d *time.Duration) string { return span(*d) },
	"sum": func(of map[string]int) (n int) {
		for _, m := range of {
			n += m
		}
		return n
	},
	"hour": hour, "grouped": grouped,
	"indent": indent, "breakable": breakable, "payload": payload, "occurrence": occurrencePath,
	"rows": func(base string, rows []operator.WebhookInfo) endpointTable { return endpointTable{base, rows} },
}).ParseFS(pageFiles, "page/*.html"))

// A tab leads to a page of the head of all pages.
type tab struct{ Path, Name string }

var tabs = []tab{{"", "Overview"}, {"subscriptions", "Subscriptions"}, {"endpoints", "Endpoints"}, {"connections", "Connections"}, {"outbox", "Put aside"},
	{"occurrences", "Find an event"}, {"tasks", "Tasks"}, {"audit", "Audit"}, {"tail", "Live tail"}, {"openapi.yaml", "API"}}

// An endpointTable is a table of subscriptions.
type endpointTable struct {
	Base string
	Rows []operator.WebhookInfo
}

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// breakable is a URL or a host that may be broken where its parts begin.
func breakable(s string) template.HTML {
	return template.HTML(breaks.Replace(template.HTMLEscapeString(s))) //nolint:gosec // escaped
}

var breaks = strings.NewReplacer("://", "://<wbr>", "/", "/<wbr>")

// when is a time as the present page shows it: how long ago or ahead, and exactly.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	exact := t.UTC().Format("2006-01-02 15:04:05Z")
	d, form := time.Since(t), "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s"><span>%s</span> <span class="exact">%s</span></time>`,
		t.UTC().Format(time.RFC3339), fmt.Sprintf(form, span(d)), exact)) // nothing of it is anybody's text
}

// span is a time in one unit.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// static are the files that are served as they are; nothing of them is anybody's.
var static = map[string]string{"style.css": "text/css; charset=utf-8", "tail.js": "text/javascript; charset=utf-8"}

// A view is what a page shows.
type view struct {
	Title string
	// Base is where the handler is mounted, without a slash at the end.
	Base string
	// Here is the first part of the page's path below it.
	Here string
	// Note tells what an action came to.
	Note string
	// Bad tells that it failed.
	Bad bool

	Types         []operator.EventType
	Type          *operator.EventTypeInfo
	Failing       []operator.WebhookInfo
	AllFailing    int // how many there are
	Rejected      []operator.Rejected
	AnyRejected   bool
	Unread        []string     // what the overview lacks, and why
	Cluster       *clusterBody // nil for none
	Activity      *pictures    // nil for none
	Payloads      bool         // are shown
	Filter        url.Values
	Subscriptions []operator.WebhookInfo
	Endpoints     []operator.Endpoint
	Host          string             // of which Endpoints are the URLs
	Sum           *operator.Endpoint // of all URLs of Host, where the page has them all
	Found         *occurrenceList
	Occurrence    *occurrencePage
	Tasks         []taskBody
	Bulk          *bulkView
	Audit         []operator.AuditEntry
	Begins        *operator.Beginning // a replay
	Until         string              // when it ends; "" for no end
	Query         template.URL        // that picks what they are done to
	Picked        url.Values          // the same
	Subscription  *operator.WebhookInfo
	Attempts      []operator.Attempt
	Connections   []operator.Connection
	More          string // URL of the next page
}

// maxFailing is how many failing endpoints the overview names.
const maxFailing = 20

// static serves what is nobody's.
func (h *handler) static(open func(method, path string, f http.HandlerFunc)) {
	for name, kind := range static {
		b, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		open("GET", "/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(b)
		})
	}
}

func (h *handler) console(add adder) {
	add("GET", "/{$}", h.overview)
	add("GET", "/subscriptions", func(w http.ResponseWriter, r *http.Request, actor string) {
		p, ok := h.subscriptions(w, r, actor)
		if !ok {
			return
		}
		h.render(w, r, http.StatusOK, "subscriptions.html", view{Title: "Subscriptions", Filter: r.URL.Query(), Subscriptions: p.Subscriptions, More: next(r, p.Next),
			Query: template.URL(query(r).Encode()), Picked: query(r)}) // escaped by that
	})
	add("GET", "/endpoints", func(w http.ResponseWriter, r *http.Request, actor string) {
		p, ok := h.endpoints(w, r, actor)
		if !ok {
			return
		}
		q := r.URL.Query()
		v := view{Title: "Endpoints", Filter: q, Endpoints: p.Endpoints, Host: q.Get("host"), Picked: query(r), More: next(r, p.Next)}
		if v.Host != "" {
			v.Title = "Endpoint " + v.Host
			v.Activity = h.pictures(r, actor, "", v.Host)
			if p.Next == "" && q.Get("after") == "" {
				v.Sum = sum(p.Endpoints)
			}
		}
		h.render(w, r, http.StatusOK, "endpoints.html", v)
	})
	add("GET", "/subscriptions/{id}", func(w http.ResponseWriter, r *http.Request, actor string) {
		if i, ok := h.subscription(w, r, actor, Show); ok {
			h.showSubscription(w, r, actor, i, view{})
		}
	})
	add("GET", "/types/{name}", func(w http.ResponseWriter, r *http.Request, actor string) {
		if t, ok := h.eventType(w, r, actor); ok {
			h.render(w, r, http.StatusOK, "type.html", view{Title: t.Name, Type: &t, Activity: h.pictures(r, actor, t.Name, "")})
		}
	})
	h.occurrences(add)
	h.auditPages(add)
	h.clusterPages(add)
	h.replayPages(add)
	add("GET", "/tail", h.tailPage)
	add("GET", "/connections", func(w http.ResponseWriter, r *http.Request, actor string) {
		p, ok := h.connections(w, r, actor)
		if !ok {
			return
		}
		h.render(w, r, http.StatusOK, "connections.html", view{Title: "Connections", Filter: r.URL.Query(), Connections: p.Connections, More: next(r, p.Next)})
	})
	for _, verb := range []Verb{Test, Send, Pause, Unpause, Replay, EndReplay, Resume, End} {
		add("POST", "/subscriptions/{id}/"+string(verb), h.pressed(verb))
	}
	add("POST", "/connections/{id}/disconnect", h.pressed(Disconnect))
	add("GET", "/outbox", func(w http.ResponseWriter, r *http.Request, actor string) {
		if p, ok := h.rejected(w, r, actor); ok {
			h.render(w, r, http.StatusOK, "outbox.html", view{Title: "Put aside", Rejected: p.Rejected, More: next(r, p.Next)})
		}
	})
	for _, verb := range []Verb{PutBack, Drop} {
		add("POST", "/outbox/{id}/"+string(verb), h.pressed(verb))
	}
	add("POST", "/revoke", h.pressed(Revoke))
	add("GET", "/tasks", h.tasksPage)
	add("GET", "/tasks/new", h.bulkPage)
	add("POST", "/tasks", h.pressed(beginTask))
	add("POST", "/tasks/{id}/cancel", h.pressed(CancelTask))
}

// sum is what endpoints come to together.
func sum(all []operator.Endpoint) *operator.Endpoint {
	var s operator.Endpoint
	earlier := func(a *time.Time, b time.Time) {
		if !b.IsZero() && (a.IsZero() || b.Before(*a)) {
			*a = b
		}
	}
	for i := range all {
		e := &all[i]
		s.Subscriptions += e.Subscriptions
		s.Active += e.Active
		s.Suspended += e.Suspended
		s.Paused += e.Paused
		s.Failing += e.Failing
		s.Behind = max(s.Behind, e.Behind)
		earlier(&s.FailedSince, e.FailedSince)
		earlier(&s.WaitingSince, e.WaitingSince)
	}
	return &s
}

// query is that of a request without pages and what is empty, as a bulk action takes it.
func query(r *http.Request) url.Values {
	q := r.URL.Query()
	for name, values := range q {
		if name == "after" || name == "limit" || values[0] == "" {
			q.Del(name)
		}
	}
	if len(q) == 0 {
		q.Set("all", "true")
	}
	return q
}

// next is the URL of a list's next page.
func next(r *http.Request, after string) string {
	if after == "" {
		return ""
	}
	q := r.URL.Query()
	q.Set("after", after)
	return "?" + q.Encode()
}

func (h *handler) overview(w http.ResponseWriter, r *http.Request, actor string) {
	if !h.allowed(w, r, actor, Action{Verb: ListTypes}) {
		return
	}
	v := view{Title: "Overview", Types: h.admin.EventTypes(), Activity: h.pictures(r, actor, "", "")}
	// What cannot be read leaves out its part of the page: it is looked at most when something is broken.
	unread := func(what string, err error) {
		if err != nil {
			_, _, detail := h.classify(r.Context(), what, err)
			v.Unread = append(v.Unread, detail)
		}
	}
	// Who may see the types alone sees no endpoints.
	if h.authorize(r, actor, Action{Verb: ListSubscriptions}) == nil {
		var err error
		v.Failing, v.AllFailing, err = h.admin.Failing(r.Context(), maxFailing)
		unread("the failing endpoints", err)
		for i := range v.Failing {
			v.Failing[i] = shown(v.Failing[i])
		}
	}
	if h.authorize(r, actor, Action{Verb: ListOutbox}) == nil {
		some, err := h.admin.Rejected(r.Context(), 0, 1)
		unread("what was put aside", err)
		v.AnyRejected = len(some) > 0
	}
	var err error
	v.Cluster, err = h.ofOverview(r, actor)
	unread("the cluster", err)
	h.render(w, r, http.StatusOK, "overview.html", v)
}

// tailPage is the page of the live tail: the only one with a script.
func (h *handler) tailPage(w http.ResponseWriter, r *http.Request, actor string) {
	f, err := readFilter(r.URL.Query(), "event")
	if !h.allowed(w, r, actor, Action{Verb: Tail, Event: f.Event}) {
		return
	}
	if err == nil && f.Event != "" {
		_, err = h.admin.EventType(f.Event)
	}
	if err != nil {
		h.fail(w, r, "the event type", err)
		return
	}
	v := view{Title: "Live tail", Filter: r.URL.Query(), Payloads: h.payloads}
	if h.authorize(r, actor, Action{Verb: ListTypes}) == nil {
		v.Types = h.admin.EventTypes()
	}
	w.Header().Set("Content-Security-Policy", policyOfTail)
	h.render(w, r, http.StatusOK, "tail.html", v)
}

// showSubscription shows one subscription, with its attempts where those may be seen.
func (h *handler) showSubscription(w http.ResponseWriter, r *http.Request, actor string, i operator.WebhookInfo, v view) {
	if h.authorize(r, actor, Action{Verb: Attempts, Subscription: i.ID, Principal: i.Principal, Event: i.Event}) == nil {
		var err error
		if v.Attempts, err = h.admin.Attempts(r.Context(), i.ID); err != nil {
			h.fail(w, r, "the attempts", err)
			return
		}
	}
	i = shown(i)
	v.Title, v.Subscription = "Subscription "+i.ID, &i
	switch r.URL.Query().Get("done") {
	case "":
	case string(Test):
		v.Note = "The test event was emitted for this subscription. Its attempt will appear in the list."
	case string(Send):
		v.Note = "The event was sent again. Its attempt is in the list."
	case string(Replay):
		v.Note = "The events are being delivered again."
	case string(EndReplay):
		v.Note = "The replay was ended."
	case string(Resume), string(Unpause):
		v.Note = "Deliveries continue."
	case string(Pause):
		v.Note = "Deliveries are paused until an operator unpauses them."
	}
	h.render(w, r, http.StatusOK, "subscription.html", v)
}

// base is where the handler is mounted: http.StripPrefix has taken it from the path.
func base(r *http.Request) string {
	whole, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(whole.Path, r.URL.Path), "/")
}

func (h *handler) render(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	v.Base = base(r)
	v.Here, _, _ = strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, v); err != nil {
		h.log.LogAttrs(r.Context(), slog.LevelError, "admin: writing a page", slog.Any("error", err))
		problem(w, http.StatusInternalServerError, "internal", "the page cannot be written")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(unturned(b.Bytes()))
}

// unturned is a page in which the characters that turn the direction of text are written as \u…, since what subscribers choose
// could read as something else. Tags stay: values of forms are sent back.
func unturned(page []byte) []byte {
	if !bytes.ContainsFunc(page, turns) {
		return page
	}
	out, tag := make([]byte, 0, len(page)+64), false
	for _, r := range string(page) {
		switch {
		case r == '<':
			tag = true
		case r == '>':
			tag = false
		}
		if turns(r) && !tag {
			out = fmt.Appendf(out, "\\u%04x", r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// turns reports whether a character sets the direction of what follows (UAX #9).
func turns(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// pressed serves a button of the console: a form, whose key was made with the page, so that pressing
// twice does it once.
func (h *handler) pressed(verb Verb) page {
	return func(w http.ResponseWriter, r *http.Request, actor string) {
		t, err := readForm(w, r, verb)
		if verb == beginTask {
			t, err = readBulk(r, t, err)
		}
		out, ok := h.act(w, r, actor, t, err)
		if !ok {
			return
		}
		if out.Code != "" {
			h.render(w, r, out.Status, "failed.html", view{Title: http.StatusText(out.Status), Note: out.Detail, Bad: true})
			return
		}
		to := base(r) + "/subscriptions"
		switch verb {
		case Disconnect:
			to = base(r) + "/connections"
		case PutBack, Drop:
			to = base(r) + "/outbox"
		case beginTask, CancelTask:
			to = base(r) + "/tasks"
		case Test, Send, Pause, Unpause, Replay, EndReplay, Resume:
			to += "/" + url.PathEscape(t.action.Subscription) + "?done=" + string(verb)
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// readForm reads an action from a form of the console.
func readForm(w http.ResponseWriter, r *http.Request, verb Verb) (t task, err error) {
	t.name(r, verb)
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); errors.Is(err, os.ErrDeadlineExceeded) {
		return t, errSlow
	} else if err != nil {
		return t, badRequest("the form cannot be read")
	}
	inbound.Lift(w)
	form := r.PostForm
	t.key, t.request.EventID, t.request.Principal = form.Get("key"), form.Get("eventId"), form.Get("principal")
	if verb == beginTask {
		t.request.Verb = form.Get("verb")
		if rate := strings.TrimSpace(form.Get("perSecond")); rate != "" {
			if t.request.PerSecond, err = strconv.ParseFloat(rate, 64); err != nil {
				err = badRequest("perSecond must be a number")
			}
		}
	}
	t.request.Since, t.request.Until = strings.TrimSpace(form.Get("since")), strings.TrimSpace(form.Get("until"))
	if text := strings.TrimSpace(form.Get("data")); verb == Test && text != "" {
		if t.request.Data = json.RawMessage(text); !json.Valid(t.request.Data) {
			err = badRequest("the payload is not JSON")
		}
	}
	if cursor := strings.TrimSpace(form.Get("cursor")); verb == Replay && cursor != "" {
		t.request.Cursor = &cursor
	}
	if text := strings.TrimSpace(form.Get("position")); verb == Replay && text != "" {
		t.request.Position, err = readPosition(text)
	}
	if form.Get("sure") != "yes" && (verb == End || verb == Revoke) {
		err = badRequest("tick the box beside the button to confirm")
	}
	return t, errors.Join(t.check(), err)
}
