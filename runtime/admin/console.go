package admin

import (
	"bytes"
	"cmp"
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
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

//go:embed page
var pageFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"when":   formatWhen,
	"exact":  plain.Time,
	"stamp":  formatTime,
	"due":    formatDue,
	"took":   formatDuration,
	"ofMs":   func(ms float64) string { return formatDuration(time.Duration(ms * float64(time.Millisecond))) },
	"tabs":   func() []tab { return tabs },
	"key":    rand.Text,
	"hostOf": operator.HostOf, "failure": operator.FailureText,
	"rate": func(perMinute float64) string { return strconv.FormatFloat(perMinute, 'f', 1, 64) },
	"join": strings.Join,
	"span": func(d *time.Duration) string { return formatSpan(*d) },
	"sum": func(of map[string]int) (n int) {
		for _, m := range of {
			n += m
		}
		return n
	},
	"grouped": func(n reflect.Value) string { return formatCount(reflect.Indirect(n).Int()) },
	"indent":  indent, "breakable": allowBreaks, "payload": payload, "occurrence": occurrencePath,
	"rows":      func(base string, rows []operator.WebhookInfo) endpointTable { return endpointTable{base, rows} },
	"latencies": func(base string, rows []latencyRow) latencyTable { return latencyTable{base, rows} },
}).ParseFS(pageFiles, "page/*.html"))

// A tab is a link in the header of all pages.
type tab struct{ Path, Name string }

var tabs = []tab{{"", "Overview"}, {"subscriptions", "Subscriptions"}, {"endpoints", "Endpoints"}, {"latency", "Latency"}, {"events", "Events"},
	{"connections", "Connections"}, {"outbox", "Rejected"}, {"audit", "Audit"}, {"tail", "Live tail"}, {"openapi.yaml", "API"}}

// An endpointTable is a table of subscriptions.
type endpointTable struct {
	Base string
	Rows []operator.WebhookInfo
}

// A latencyTable is a table of latencies.
type latencyTable struct {
	Base string
	Rows []latencyRow
}

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// allowBreaks marks where a line can be broken within a URL or host.
func allowBreaks(s string) template.HTML {
	return template.HTML(breaks.Replace(template.HTMLEscapeString(s))) //nolint:gosec // escaped
}

var breaks = strings.NewReplacer("://", "://<wbr>", "/", "/<wbr>")

// formatWhen formats a time as HTML, both relative to now and as an exact time. It returns "" for the zero time.
func formatWhen(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	d, form := time.Since(t), "%s ago"
	if d < -time.Second/2 {
		d, form = -d, "in %s"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s"><span>%s</span> <span class="exact">%s</span></time>`,
		t.UTC().Format(time.RFC3339), fmt.Sprintf(form, formatSpan(max(d, 0))), plain.Time(t))) // no part of it is user input
}

// formatDue formats the time of the next attempt.
func formatDue(t time.Time) template.HTML {
	if !t.IsZero() && t.Before(time.Now()) {
		return "due now"
	}
	return formatWhen(t)
}

// staticFiles maps the names of files that are served without authentication to their content types.
var staticFiles = map[string]string{"style.css": "text/css; charset=utf-8", "tail.js": "text/javascript; charset=utf-8"}

// A view is the template data of a page.
type view struct {
	Title string
	// Base is the path where the handler is mounted, without a trailing slash.
	Base string
	// Here is the first element of the page's path below Base.
	Here string
	// Note describes the result of an action.
	Note string
	// Bad reports whether the action failed.
	Bad bool

	Types         []operator.EventType
	Type          *operator.EventTypeInfo
	Failing       []operator.WebhookInfo
	AllFailing    int // the total; negative if the actor may not see it, or if it is unknown
	Fresh         operator.Freshness
	Abandoned     int // events given up in the last hour
	Rejected      []operator.Rejected
	AnyRejected   bool
	Unread        []string     // the missing parts of the overview, and why
	Cluster       *clusterBody // nil without a cluster
	Payloads      bool         // payloads are shown
	Filter        url.Values
	Subscriptions []operator.WebhookInfo
	Endpoints     []operator.Endpoint
	Host          string                // the host whose URLs Endpoints has
	Sum           *operator.Endpoint    // of all URLs of Host, if the page has them all
	Took          map[string]latencyRow // by hosts and URLs of Endpoints
	Latency       *latencyBody
	Window        *windowPage
	Delay         *operator.Delay
	Found         *occurrenceList
	Occurrence    *occurrencePage
	Many          *manyView
	Audit         []operator.AuditEntry
	Begins        *operator.Beginning // a replay
	Until         time.Time           // when it ends; zero for no end
	Query         template.URL        // the filter of the action's subscriptions
	Picked        url.Values          // the same filter
	Subscription  *operator.WebhookInfo
	Attempts      []operator.Attempt
	OtherAttempts int // the number of attempts that are older than Attempts
	Connections   []operator.Connection
	More          string // URL of the next page
}

// static serves the static files, which do not require authentication.
func (h *handler) static(open func(method, path string, f http.HandlerFunc)) {
	for name, kind := range staticFiles {
		b, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // the files are embedded
		}
		open("GET", "/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(b)
		})
	}
}

func (h *handler) console(add adder) {
	add("GET", "/{$}", h.overview)
	add("GET", "/subscriptions", reading(h, "the list", h.subscriptions, func(w http.ResponseWriter, r *http.Request, _ string, p subscriptionPage) {
		h.render(w, r, http.StatusOK, "subscriptions.html", view{Title: "Subscriptions", Filter: r.URL.Query(), Subscriptions: p.Subscriptions, Fresh: p.Freshness, More: nextPageURL(r, p.Next),
			Query: template.URL(listFilters(r).Encode()), Picked: listFilters(r)}) // Encode escapes it
	}))
	add("GET", "/endpoints", reading(h, "the list", h.endpoints, func(w http.ResponseWriter, r *http.Request, actor string, p endpointPage) {
		q := r.URL.Query()
		f, _ := readFilter(q, subscriptionFilters...) // endpoints has validated it
		v := view{Title: "Endpoints", Filter: q, Endpoints: p.Endpoints, Fresh: p.Freshness, Host: q.Get("host"), Picked: listFilters(r), More: nextPageURL(r, p.Next)}
		if v.Host != "" {
			v.Title = "Endpoint " + v.Host
			if p.Next == "" && q.Get("after") == "" {
				v.Sum = sum(p.Endpoints)
			}
		}
		if h.authorize(r, actor, attemptsAction(f.Filter)) == nil {
			took, err := h.admin.Latency(r.Context(), f.Filter)
			if err != nil {
				h.fail(w, r, "the latency", err)
				return
			}
			v.Took = map[string]latencyRow{}
			for _, l := range latencyRows(took.Endpoints) {
				v.Took[l.Host+l.URL] = l
			}
		}
		h.render(w, r, http.StatusOK, "endpoints.html", v)
	}))
	add("GET", "/subscriptions/{id}", h.withSubscription(Show, h.showSubscription))
	add("GET", "/types/{name}", reading(h, "the event type", h.eventType, func(w http.ResponseWriter, r *http.Request, _ string, t operator.EventTypeInfo) {
		h.render(w, r, http.StatusOK, "type.html", view{Title: t.Name, Type: &t})
	}))
	h.occurrencePages(add)
	h.windowPages(add)
	h.auditPages(add)
	h.clusterPages(add)
	h.replayPages(add)
	add("GET", "/tail", h.tailPage)
	add("GET", "/connections", reading(h, "the list", h.connections, func(w http.ResponseWriter, r *http.Request, _ string, p connectionPage) {
		h.render(w, r, http.StatusOK, "connections.html", view{Title: "Connections", Filter: r.URL.Query(), Connections: p.Connections, Fresh: p.Freshness, More: nextPageURL(r, p.Next)})
	}))
	add("GET", "/outbox", reading(h, "the list", h.rejectedEntries, func(w http.ResponseWriter, r *http.Request, _ string, p rejectedPage) {
		h.render(w, r, http.StatusOK, "outbox.html", view{Title: "Rejected events", Rejected: p.Rejected, More: nextPageURL(r, p.Next)})
	}))
	addActions(add, "", h.buttonAction)
	add("GET", "/act", h.manyPage)
	add("POST", "/act", h.actOnMany)
}

// sum sums up endpoints.
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
		s.Abandoned += e.Abandoned
		if e.Behind != nil && (s.Behind == nil || *e.Behind > *s.Behind) {
			s.Behind = e.Behind
		}
		s.Missing = cmp.Or(s.Missing, e.Missing)
		earlier(&s.FailedSince, e.FailedSince)
		earlier(&s.WaitingSince, e.WaitingSince)
	}
	if s.Missing != "" {
		s.Behind, s.WaitingSince = nil, time.Time{}
	}
	return &s
}

// listFilters returns the filters of a request, without paging parameters and empty values, in the form that readMany
// expects.
func listFilters(r *http.Request) url.Values {
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

// nextPageURL returns the URL of the next page of a list.
func nextPageURL(r *http.Request, after string) string {
	if after == "" {
		return ""
	}
	q := r.URL.Query()
	q.Set("after", after)
	return "?" + q.Encode()
}

// tailPage serves the page of the live tail, which is the only page with a script.
func (h *handler) tailPage(w http.ResponseWriter, r *http.Request, actor string) {
	f, err := readFilter(r.URL.Query(), "event")
	if !h.authorizeOrFail(w, r, actor, Action{Verb: Tail, Event: f.Event}) {
		return
	}
	if err == nil && f.Event != "" {
		_, err = h.admin.EventType(r.Context(), f.Event)
	}
	if err != nil {
		h.fail(w, r, "the event type", err)
		return
	}
	v := view{Title: "Live tail", Filter: r.URL.Query(), Payloads: h.payloads}
	if h.authorize(r, actor, Action{Verb: ListTypes}) == nil {
		v.Types = h.admin.EventTypes(r.Context())
	}
	w.Header().Set("Content-Security-Policy", policyOfTail)
	h.render(w, r, http.StatusOK, "tail.html", v)
}

// maxDetails is the maximum number of attempts or deliveries on the first page of a subscription or an event.
const maxDetails = 20

// showSubscription shows one subscription, and its attempts if the actor may see them.
func (h *handler) showSubscription(w http.ResponseWriter, r *http.Request, actor string, i operator.WebhookInfo) {
	v := view{}
	if h.authorize(r, actor, Action{Verb: Attempts, Subscription: i.ID, Principal: i.Principal, Event: i.Event}) == nil {
		var err error
		if v.Attempts, err = h.admin.Attempts(r.Context(), i.ID); err != nil {
			h.fail(w, r, "the attempts", err)
			return
		}
		d, err := h.admin.Why(r.Context(), i.ID)
		if err != nil {
			h.fail(w, r, "the attempts", err)
			return
		}
		v.Delay = &d
		if r.URL.Query().Get("attempts") != "all" {
			v.OtherAttempts = max(len(v.Attempts)-maxDetails, 0)
			v.Attempts = v.Attempts[:len(v.Attempts)-v.OtherAttempts]
		}
	}
	i = withShownURL(i)
	v.Title, v.Subscription = "Subscription "+i.ID, &i
	switch r.URL.Query().Get("done") {
	case "":
	case acceptedNote:
		v.Note = "The request is stored. The delivering process performs it; reload the page to see the result."
	case string(Test):
		v.Note = "The test event was emitted for this subscription. Its attempt will appear below."
	case string(Unpause):
		v.Note = "Deliveries continue."
	case string(Pause):
		v.Note = "Deliveries are paused until an operator unpauses them."
	}
	h.render(w, r, http.StatusOK, "subscription.html", v)
}

// basePath returns the path at which the handler is mounted. http.StripPrefix has removed it from the request's URL.
func basePath(r *http.Request) string {
	whole, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(whole.Path, r.URL.Path), "/")
}

func (h *handler) render(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	v.Base = basePath(r)
	v.Here, _, _ = strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, v); err != nil {
		h.log.LogAttrs(r.Context(), slog.LevelError, "admin: writing a page", slog.Any("error", err))
		problem(w, http.StatusInternalServerError, "internal", "the page cannot be rendered")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(escapeBidi(b.Bytes()))
}

// escapeBidi replaces characters that change the text direction with \u… escapes. Subscribers could use them to
// disguise text. Tags are not changed, because forms send their values back.
func escapeBidi(page []byte) []byte {
	if !bytes.ContainsFunc(page, isBidiControl) {
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
		if isBidiControl(r) && !tag {
			out = fmt.Appendf(out, "\\u%04x", r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// isBidiControl reports whether a character changes the direction of the following text (UAX #9).
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// acceptedNote is the value of a subscription page's done parameter for a request, which may be pending. Otherwise, done
// is the verb.
const acceptedNote = "accepted"

// buttonAction returns a handler for a button of the console. The form contains a key that was generated with the page,
// so pressing the button twice makes one request.
func (h *handler) buttonAction(verb Verb) page {
	return func(w http.ResponseWriter, r *http.Request, actor string) {
		t, err := readForm(w, r, verb)
		out, ok := h.authorizeAndPerform(w, r, actor, t, err)
		if !ok {
			return
		}
		if out.Code != "" {
			h.render(w, r, out.Status, "failed.html", view{Title: http.StatusText(out.Status), Note: out.Detail, Bad: true})
			return
		}
		to := basePath(r) + "/subscriptions"
		switch verb {
		case Disconnect:
			to = basePath(r) + "/connections"
		case PutBack, Drop:
			to = basePath(r) + "/outbox"
		case Reopen:
			to = basePath(r) + "/types/" + url.PathEscape(t.action.Event)
		case Test, Send, Pause, Unpause, Replay, EndReplay, Resume:
			done := string(verb)
			if out.Status == http.StatusAccepted {
				done = acceptedNote
			}
			to += "/" + url.PathEscape(t.action.Subscription) + "?done=" + done
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// parseForm parses the fields of a console form.
func parseForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errSlow
	} else if err != nil {
		return nil, badRequest("the form cannot be read")
	}
	inbound.Lift(w)
	return r.PostForm, nil
}

// readForm parses the action of a console form.
func readForm(w http.ResponseWriter, r *http.Request, verb Verb) (t task, err error) {
	t.setObject(r, verb)
	form, err := parseForm(w, r)
	if err != nil {
		return t, err
	}
	t.key, t.request.EventID, t.request.Principal = form.Get("key"), form.Get("eventId"), form.Get("principal")
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
		err = badRequest("select the checkbox next to the button to confirm")
	}
	return t, errors.Join(t.validate(), err)
}
