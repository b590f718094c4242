package admin

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxFilter is the maximum size of a filter in bytes.
	maxFilter = 2048
)

//go:embed openapi.yaml
var openAPI []byte

type adder func(method, path string, f page)

func (h *handler) api(add adder) {
	add("GET", "/openapi.yaml", func(w http.ResponseWriter, r *http.Request, actor string) {
		if !h.authorizeOrFail(w, r, actor, Action{Verb: ListTypes}) {
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	add("GET", "/api/types", func(w http.ResponseWriter, r *http.Request, actor string) {
		if h.authorizeOrFail(w, r, actor, Action{Verb: ListTypes}) {
			answer(w, http.StatusOK, typeList{h.admin.EventTypes(r.Context()), h.admin.Freshness(r.Context())})
		}
	})
	add("GET", "/api/types/{name}", reading(h, "the event type", h.eventType, answerOK))
	add("GET", "/api/occurrences", reading(h, "the occurrence", h.findOccurrence, answerOK))
	add("GET", "/api/types/{name}/occurrences/{position}", reading(h, "the occurrence", h.occurrenceDetails, answerOK))
	add("GET", "/api/tail", h.serveTail)
	add("GET", "/api/subscriptions", reading(h, "the list", h.subscriptions, answerOK))
	add("GET", "/api/subscriptions/{id}", h.withSubscription(Show, func(w http.ResponseWriter, _ *http.Request, _ string, i operator.WebhookInfo) {
		answer(w, http.StatusOK, withShownURL(i))
	}))
	add("GET", "/api/subscriptions/{id}/attempts", h.withSubscription(Attempts, h.attempts))
	add("GET", "/api/subscriptions/{id}/why", reading(h, aSubscription, h.delayReason, answerOK))
	add("GET", "/api/events", reading(h, "the events", h.eventsBetween, answerOK))
	add("GET", "/api/latency", reading(h, "the latency", h.latencies, answerOK))
	add("GET", "/api/endpoints", reading(h, "the list", h.endpoints, answerOK))
	add("GET", "/api/connections", reading(h, "the list", h.connections, answerOK))
	add("GET", "/api/outbox", reading(h, "the list", h.rejectedEntries, answerOK))
	add("GET", "/api/abandoned", reading(h, "the list", h.abandonedEvents, answerOK))
	addActions(add, "/api", h.apiAction)
}

// addActions registers the actions below a path.
func addActions(add adder, base string, act func(Verb) page) {
	for _, verb := range []Verb{Test, Send, Pause, Unpause, Replay, EndReplay, Resume, End} {
		add("POST", base+"/subscriptions/{id}/"+string(verb), act(verb))
	}
	add("POST", base+"/connections/{id}/disconnect", act(Disconnect))
	for _, verb := range []Verb{PutBack, Drop} {
		add("POST", base+"/outbox/{id}/"+string(verb), act(verb))
	}
	add("POST", base+"/types/{name}/reopen", act(Reopen))
	add("POST", base+"/revoke", act(Revoke))
}

// reading returns a page that passes the value of find to show. If find fails, the page answers with its error, which
// names what find reads.
func reading[T any](h *handler, what string, find func(r *http.Request, actor string) (T, error), show func(w http.ResponseWriter, r *http.Request, actor string, v T)) page {
	return func(w http.ResponseWriter, r *http.Request, actor string) {
		v, err := find(r, actor)
		if err != nil {
			h.fail(w, r, what, err)
			return
		}
		show(w, r, actor, v)
	}
}

// withSubscription returns a page about the subscription in the path. The actor must be authorized for the verb.
func (h *handler) withSubscription(verb Verb, show func(w http.ResponseWriter, r *http.Request, actor string, i operator.WebhookInfo)) page {
	find := func(r *http.Request, actor string) (operator.WebhookInfo, error) {
		return h.subscription(r, actor, verb)
	}
	return reading(h, aSubscription, find, show)
}

// answerOK answers with a value that has been read.
func answerOK[T any](w http.ResponseWriter, _ *http.Request, _ string, v T) {
	answer(w, http.StatusOK, v)
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		problem(w, http.StatusInternalServerError, "internal", "the response cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

const (
	wholeID = len("sub_") + 32 // bytes of a subscription id
	// maxCandidates is the maximum number of ids listed in an error.
	maxCandidates = 5
)

// completeID completes the subscription id in the path if it is the prefix of exactly one id. If the prefix is
// ambiguous, the response lists the candidates.
func (h *handler) completeID(w http.ResponseWriter, r *http.Request, actor string) bool {
	prefix := r.PathValue("id")
	if len(prefix) >= wholeID || !strings.HasPrefix(prefix, "sub_") {
		return true
	}
	found, err := h.admin.List(r.Context(), prefix, maxCandidates+1)
	if err != nil {
		h.fail(w, r, aSubscription, err)
		return false
	}
	var ids []string
	for _, i := range found {
		if strings.HasPrefix(i.ID, prefix) && i.State != operator.StateAbsent {
			ids = append(ids, i.ID)
		}
	}
	switch {
	case len(ids) == 1:
		r.SetPathValue("id", ids[0])
	case len(ids) > 1:
		if h.authorizeOrFail(w, r, actor, Action{Verb: ListSubscriptions}) {
			more := ""
			if len(ids) > maxCandidates {
				ids, more = ids[:maxCandidates], " and others"
			}
			h.refuse(w, r, http.StatusConflict, "ambiguous", prefix+" is a prefix of several ids: "+strings.Join(ids, ", ")+more)
		}
		return false
	}
	return true
}

// subscription returns the subscription identified by the path. It authorizes the request first, so unauthorized actors
// cannot find out whether the subscription exists.
func (h *handler) subscription(r *http.Request, actor string, verb Verb) (operator.WebhookInfo, error) {
	a := Action{Verb: verb, Subscription: r.PathValue("id")}
	i, err := h.admin.Get(r.Context(), a.Subscription)
	if err == nil {
		a.Principal, a.Event = i.Principal, i.Event
	}
	return i, cmp.Or(h.allow(r, actor, a), err)
}

// eventType returns the event type specified by the path.
func (h *handler) eventType(r *http.Request, actor string) (t operator.EventTypeInfo, err error) {
	name := r.PathValue("name")
	if err := h.allow(r, actor, Action{Verb: ShowType, Event: name}); err != nil {
		return t, err
	}
	return h.admin.EventType(r.Context(), name)
}

// attempts answers with the attempts of a subscription.
func (h *handler) attempts(w http.ResponseWriter, r *http.Request, _ string, i operator.WebhookInfo) {
	found, err := h.admin.Attempts(r.Context(), i.ID)
	if err != nil {
		h.fail(w, r, "the attempts", err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"attempts": listed(found)})
}

// An attempt is the API's JSON form of an operator.Attempt.
type attempt struct {
	operator.Attempt
	TookMs float64 `json:"tookMs"`
	// Took hides the Took field of operator.Attempt, which is in nanoseconds.
	Took any `json:"took,omitempty"`
}

func listed(found []operator.Attempt) []attempt {
	all := make([]attempt, len(found))
	for i, a := range found {
		all[i] = shownAttempt(a)
	}
	return all
}

func shownAttempt(a operator.Attempt) attempt {
	return attempt{Attempt: a, TookMs: milliseconds(a.Took)}
}

// A typeList is the list of event types.
type typeList struct {
	Types []operator.EventType `json:"types"`
	operator.Freshness
}

// A subscriptionPage is a page of subscriptions. Next is the after parameter for the next page.
type subscriptionPage struct {
	Subscriptions []operator.WebhookInfo `json:"subscriptions"`
	Next          string                 `json:"next,omitempty"`
	operator.Freshness
}

// A connectionPage is a page of connections.
type connectionPage struct {
	Connections []operator.Connection `json:"connections"`
	Next        string                `json:"next,omitempty"`
	operator.Freshness
}

// An endpointPage is a page of endpoints.
type endpointPage struct {
	Endpoints []operator.Endpoint `json:"endpoints"`
	Next      string              `json:"next,omitempty"`
	operator.Freshness
}

// filterParams converts the filter to query parameters.
func filterParams(f operator.Filter) map[string]string {
	m := map[string]string{}
	for name, value := range map[string]string{"principal": f.Principal, "event": f.Event, "state": string(f.State), "host": f.Host, "url": f.URL} {
		if value != "" {
			m[name] = value
		}
	}
	if f.MinBehind > 0 {
		m["minBehind"] = strconv.FormatInt(f.MinBehind, 10)
	}
	if f.Failing {
		m["failing"] = "true"
	}
	if f.Late > 0 {
		m["late"] = plain.Duration(f.Late)
	}
	return m
}

// subscriptionFilters lists the query parameters that filter subscriptions.
var subscriptionFilters = []string{"principal", "event", "state", "url", "host", "minBehind", "failing", "late"}

// A filter is the parsed query of a list request.
type filter struct {
	operator.Filter
	mode, after string
	limit       int
}

// readFilter parses a query. It returns an error for parameters that are not in known.
func readFilter(q url.Values, known ...string) (f filter, err error) {
	f.limit = defaultPage
	for name, values := range q {
		if !slices.Contains(known, name) && name != "after" && name != "limit" {
			return f, badRequest("unknown query parameter " + strconv.Quote(cut(name)))
		}
		if len(values) > 1 {
			return f, badRequest("the query parameter " + name + " is given twice")
		}
		v := values[0]
		if len(v) > maxFilter || !utf8.ValidString(v) {
			return f, badRequest("the query parameter " + name + " has " + strconv.Itoa(len(v)) + " bytes; it must be UTF-8 with at most " + strconv.Itoa(maxFilter))
		}
		switch name {
		case "principal":
			f.Principal = v
		case "event":
			f.Event = v
		case "url":
			f.URL = v
		case "host":
			f.Host = v
		case "mode":
			f.mode = v
		case "after":
			if strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return f, badRequest("after is not a page cursor")
			}
			f.after = v
		case "state":
			if v == "failing" {
				f.Failing = true
				continue
			}
			if f.State = operator.State(v); v != "" && v != string(operator.StateActive) && v != string(operator.StateSuspended) && v != string(operator.StatePaused) && v != string(operator.StateUnreadable) {
				return f, badRequest("state must be active, suspended, paused, unreadable or failing")
			}
		case "minBehind":
			if v == "" {
				continue
			}
			if f.MinBehind, err = strconv.ParseInt(v, 10, 64); err != nil || f.MinBehind < 0 {
				return f, badRequest("minBehind must be an integer of at least 0")
			}
		case "failing":
			if f.Failing = f.Failing || v == "true"; v != "" && v != "true" && v != "false" {
				return f, badRequest("failing must be true or false")
			}
		case "late":
			if v == "" {
				continue
			}
			if f.Late, err = time.ParseDuration(v); err != nil || f.Late <= 0 {
				return f, badRequest("late must be a duration such as 90s, 5m or 2h")
			}
		case "limit":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > maxPage {
				return f, badRequest("limit must be a number from 1 to " + strconv.Itoa(maxPage))
			}
			f.limit = n
		}
	}
	return f, nil
}

func cut(s string) string { return s[:min(len(s), 40)] }

// subscriptions returns a page of subscriptions.
func (h *handler) subscriptions(r *http.Request, actor string) (p subscriptionPage, err error) {
	f, err := readFilter(r.URL.Query(), subscriptionFilters...)
	if err := cmp.Or(h.allow(r, actor, Action{Verb: ListSubscriptions, Principal: f.Principal, Event: f.Event}), err); err != nil {
		return p, err
	}
	found, next, err := h.admin.Find(r.Context(), f.Filter, f.after, f.limit)
	p = subscriptionPage{[]operator.WebhookInfo{}, next, h.admin.Freshness(r.Context())}
	for _, i := range found {
		p.Subscriptions = append(p.Subscriptions, withShownURL(i))
	}
	return p, err
}

// withShownURL returns i without the parts of the callback URL that may be secret.
func withShownURL(i operator.WebhookInfo) operator.WebhookInfo {
	i.URL = operator.ShownURL(i.URL)
	return i
}

// endpoints returns a page of endpoints, which summarize subscriptions by host, or by URL for a single host.
func (h *handler) endpoints(r *http.Request, actor string) (p endpointPage, err error) {
	f, err := readFilter(r.URL.Query(), subscriptionFilters...)
	if err := cmp.Or(h.allow(r, actor, Action{Verb: ListSubscriptions, Principal: f.Principal, Event: f.Event}), err); err != nil {
		return p, err
	}
	found, next, err := h.admin.Endpoints(r.Context(), f.Filter, f.after, f.limit)
	return endpointPage{append([]operator.Endpoint{}, found...), next, h.admin.Freshness(r.Context())}, err
}

// connections returns a page of streams and pollers.
func (h *handler) connections(r *http.Request, actor string) (p connectionPage, err error) {
	f, err := readFilter(r.URL.Query(), "principal", "event", "mode")
	if err := cmp.Or(h.allow(r, actor, Action{Verb: ListConnections, Principal: f.Principal, Event: f.Event}), err); err != nil {
		return p, err
	}
	p.Connections = []operator.Connection{}
	var all []operator.Connection
	all, p.Freshness = h.admin.Connections(r.Context())
	for _, c := range all {
		if c.ID <= f.after || f.Principal != "" && c.Principal != f.Principal || f.Event != "" && c.Event != f.Event || f.mode != "" && c.Mode != f.mode {
			continue
		}
		if len(p.Connections) == f.limit {
			p.Next = p.Connections[f.limit-1].ID
			break
		}
		p.Connections = append(p.Connections, c)
	}
	return p, nil
}
