package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxScan bounds how many subscriptions one request looks at: with filters a page may hold fewer
	// than asked for, and still have a next one.
	maxScan = 10_000
	// maxFilter bounds a filter's bytes.
	maxFilter = 2048
)

//go:embed openapi.yaml
var openAPI []byte

type adder func(method, path string, f page)

func (h *handler) api(add adder) {
	add("GET", "/openapi.yaml", func(w http.ResponseWriter, r *http.Request, actor string) {
		if !h.allowed(w, r, actor, Action{Verb: ListTypes}) {
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	add("GET", "/api/types", func(w http.ResponseWriter, r *http.Request, actor string) {
		if h.allowed(w, r, actor, Action{Verb: ListTypes}) {
			answer(w, http.StatusOK, map[string]any{"types": h.admin.EventTypes()})
		}
	})
	add("GET", "/api/types/{name}", func(w http.ResponseWriter, r *http.Request, actor string) {
		if t, ok := h.eventType(w, r, actor); ok {
			answer(w, http.StatusOK, t)
		}
	})
	add("GET", "/api/tail", h.tail)
	add("GET", "/api/subscriptions", func(w http.ResponseWriter, r *http.Request, actor string) {
		page, ok := h.subscriptions(w, r, actor)
		if ok {
			answer(w, http.StatusOK, page)
		}
	})
	add("GET", "/api/subscriptions/{id}", func(w http.ResponseWriter, r *http.Request, actor string) {
		if i, ok := h.subscription(w, r, actor, Show); ok {
			answer(w, http.StatusOK, shown(i))
		}
	})
	add("GET", "/api/subscriptions/{id}/attempts", func(w http.ResponseWriter, r *http.Request, actor string) {
		if i, ok := h.subscription(w, r, actor, Attempts); ok {
			h.attempts(w, r, i.ID)
		}
	})
	add("GET", "/api/connections", func(w http.ResponseWriter, r *http.Request, actor string) {
		page, ok := h.connections(w, r, actor)
		if ok {
			answer(w, http.StatusOK, page)
		}
	})
	add("GET", "/api/outbox", func(w http.ResponseWriter, r *http.Request, actor string) {
		if page, ok := h.rejected(w, r, actor); ok {
			answer(w, http.StatusOK, page)
		}
	})
	for _, verb := range []Verb{Send, Pause, Unpause, Replay, Resume, End} {
		add("POST", "/api/subscriptions/{id}/"+string(verb), h.posted(verb))
	}
	add("POST", "/api/connections/{id}/disconnect", h.posted(Disconnect))
	for _, verb := range []Verb{PutBack, Drop} {
		add("POST", "/api/outbox/{id}/"+string(verb), h.posted(verb))
	}
	add("POST", "/api/revoke", h.posted(Revoke))
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		problem(w, http.StatusInternalServerError, "internal", "the answer cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// subscription returns the subscription that the path names. Authorize is asked before anything is
// said of it, of one that is not there as well.
func (h *handler) subscription(w http.ResponseWriter, r *http.Request, actor string, verb Verb) (i operator.WebhookInfo, ok bool) {
	a := Action{Verb: verb, Subscription: r.PathValue("id")}
	i, err := h.admin.Get(r.Context(), a.Subscription)
	if err == nil {
		a.Principal, a.Event = i.Principal, i.Event
	}
	if !h.allowed(w, r, actor, a) {
		return i, false
	}
	if err != nil {
		h.fail(w, r, "the subscription", err)
		return i, false
	}
	return i, true
}

// eventType returns the event type that the path names.
func (h *handler) eventType(w http.ResponseWriter, r *http.Request, actor string) (t operator.EventTypeInfo, ok bool) {
	name := r.PathValue("name")
	if !h.allowed(w, r, actor, Action{Verb: ShowType, Event: name}) {
		return t, false
	}
	t, err := h.admin.EventType(name)
	if err != nil {
		h.fail(w, r, "the event type", err)
		return t, false
	}
	return t, true
}

func (h *handler) attempts(w http.ResponseWriter, r *http.Request, id string) {
	found, err := h.admin.Attempts(r.Context(), id)
	if err != nil {
		h.fail(w, r, "the attempts", err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"attempts": listed(found)})
}

// An attempt is a operator.Attempt as the API shows it.
type attempt struct {
	operator.Attempt
	TookMs float64 `json:"tookMs"`
	// Of the embedded one these are not shown: nanoseconds, and where the event is in its log.
	Took     any `json:"took,omitempty"`
	Position any `json:"position,omitempty"`
}

func listed(found []operator.Attempt) []attempt {
	all := make([]attempt, len(found))
	for i, a := range found {
		all[i] = shownAttempt(a)
	}
	return all
}

func shownAttempt(a operator.Attempt) attempt {
	return attempt{Attempt: a, TookMs: float64(a.Took.Microseconds()) / 1000}
}

// A subscriptionPage is part of a list; Next asks for what follows it.
type subscriptionPage struct {
	Subscriptions []operator.WebhookInfo `json:"subscriptions"`
	Next          string                 `json:"next,omitempty"`
}

// A connectionPage is the same of connections.
type connectionPage struct {
	Connections []operator.Connection `json:"connections"`
	Next        string                `json:"next,omitempty"`
}

// A filter is what a list's query asks for.
type filter struct {
	principal, event, state, url, mode, after string
	minBehind                                 int64
	limit                                     int
}

// readFilter reads a query, of which only the named members are known.
func readFilter(q url.Values, known ...string) (f filter, err error) {
	f.limit = defaultPage
	for name, values := range q {
		if !slices.Contains(known, name) && name != "after" && name != "limit" {
			return f, badRequest("there is no query parameter " + strconv.Quote(cut(name)))
		}
		if len(values) > 1 {
			return f, badRequest("the query parameter " + name + " comes twice")
		}
		v := values[0]
		if len(v) > maxFilter || !utf8.ValidString(v) {
			return f, badRequest("the query parameter " + name + " has " + strconv.Itoa(len(v)) + " bytes, or is no UTF-8; at most " + strconv.Itoa(maxFilter) + " are taken")
		}
		switch name {
		case "principal":
			f.principal = v
		case "event":
			f.event = v
		case "url":
			f.url = v
		case "mode":
			f.mode = v
		case "after":
			if strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return f, badRequest("after is no cursor of a page")
			}
			f.after = v
		case "state":
			if f.state = v; v != "" && v != string(operator.StateActive) && v != string(operator.StateSuspended) && v != string(operator.StatePaused) {
				return f, badRequest("state is active, suspended or paused")
			}
		case "minBehind":
			if v == "" {
				continue
			}
			if f.minBehind, err = strconv.ParseInt(v, 10, 64); err != nil || f.minBehind < 0 {
				return f, badRequest("minBehind is a number from 0")
			}
		case "limit":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > maxPage {
				return f, badRequest("limit is a number from 1 to " + strconv.Itoa(maxPage))
			}
			f.limit = n
		}
	}
	return f, nil
}

func cut(s string) string { return s[:min(len(s), 40)] }

func (f *filter) takes(i *operator.WebhookInfo) bool {
	return (f.principal == "" || i.Principal == f.principal) && (f.event == "" || i.Event == f.event) &&
		(f.state == "" || string(i.State) == f.state) && (f.url == "" || strings.Contains(shownURL(i.URL), f.url)) &&
		i.State != operator.StateAbsent && (f.minBehind == 0 || i.Behind != nil && *i.Behind >= f.minBehind)
}

// subscriptions answers a list, in order of ids, so that a page is the same whatever comes or goes
// before it.
func (h *handler) subscriptions(w http.ResponseWriter, r *http.Request, actor string) (p subscriptionPage, ok bool) {
	f, err := readFilter(r.URL.Query(), "principal", "event", "state", "url", "minBehind")
	if !h.allowed(w, r, actor, Action{Verb: ListSubscriptions, Principal: f.principal, Event: f.event}) {
		return p, false
	}
	if err == nil {
		p, err = h.find(r.Context(), f)
	}
	if err != nil {
		h.fail(w, r, "the list", err)
		return p, false
	}
	return p, true
}

func (h *handler) find(ctx context.Context, f filter) (p subscriptionPage, err error) {
	p.Subscriptions = []operator.WebhookInfo{}
	after := f.after
	for scanned := 0; ; {
		n := min(maxPage, maxScan-scanned)
		some, err := h.admin.List(ctx, after, n)
		if err != nil {
			return p, err
		}
		for i := range some {
			after = some[i].ID
			if !f.takes(&some[i]) {
				continue
			}
			if len(p.Subscriptions) == f.limit {
				p.Next = p.Subscriptions[f.limit-1].ID
				return p, nil
			}
			p.Subscriptions = append(p.Subscriptions, shown(some[i]))
		}
		if len(some) < n {
			return p, nil
		}
		if scanned += n; scanned >= maxScan {
			p.Next = after
			return p, nil
		}
	}
}

// shown leaves out of a callback's URL what may be a secret.
func shown(i operator.WebhookInfo) operator.WebhookInfo {
	i.URL = shownURL(i.URL)
	return i
}

// shownURL is the URL without userinfo, query and fragment.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

func (h *handler) connections(w http.ResponseWriter, r *http.Request, actor string) (p connectionPage, ok bool) {
	f, err := readFilter(r.URL.Query(), "principal", "event", "mode")
	if !h.allowed(w, r, actor, Action{Verb: ListConnections, Principal: f.principal, Event: f.event}) {
		return p, false
	}
	if err != nil {
		h.fail(w, r, "the list", err)
		return p, false
	}
	p.Connections = []operator.Connection{}
	for _, c := range h.admin.Connections() {
		if c.ID <= f.after || f.principal != "" && c.Principal != f.principal || f.event != "" && c.Event != f.event || f.mode != "" && c.Mode != f.mode {
			continue
		}
		if len(p.Connections) == f.limit {
			p.Next = p.Connections[f.limit-1].ID
			break
		}
		p.Connections = append(p.Connections, c)
	}
	return p, true
}
