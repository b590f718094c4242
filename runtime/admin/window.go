package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/timetext"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A windowPage is the API's JSON form of an [operator.Window], without payloads.
type windowPage struct {
	operator.Window
	Occurrences []happened `json:"occurrences"`
}

type happened struct {
	operator.Happened
	Data *struct{} `json:"data,omitempty"`
}

// eventsBetween returns a page of the events with timestamps between two times.
func (h *handler) eventsBetween(r *http.Request, actor string) (p windowPage, err error) {
	f, since, until, err := readSince(trimValues(r.URL.Query()), "event")
	if err == nil && since.IsZero() {
		err = badRequest("since is missing: give " + timetext.Forms)
	}
	if err := cmp.Or(h.allow(r, actor, Action{Verb: FindOccurrence, Event: f.Event}, Action{Verb: Attempts, Event: f.Event}), err); err != nil {
		return p, err
	}
	p.Window, err = h.admin.Between(r.Context(), f.Event, since, until, f.after, f.limit)
	p.Occurrences = make([]happened, len(p.Window.Occurrences))
	for i, o := range p.Window.Occurrences {
		p.Occurrences[i] = happened{Happened: o}
	}
	return p, err
}

// trimValues removes white space around query values, which users may have entered in forms.
func trimValues(q url.Values) url.Values {
	for _, values := range q {
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
	}
	return q
}

// A latencyBody is the API's JSON form of an [operator.LatencySample].
type latencyBody struct {
	operator.LatencySample
	Endpoints []latencyRow `json:"endpoints"`
	Types     []latencyRow `json:"types"`
}

type latencyRow struct {
	operator.Latency
	P50Ms float64 `json:"p50Ms"`
	P95Ms float64 `json:"p95Ms"`
}

func latencyRows(all []operator.Latency) []latencyRow {
	rows := make([]latencyRow, len(all))
	for i, l := range all {
		rows[i] = latencyRow{l, milliseconds(l.P50), milliseconds(l.P95)}
	}
	return rows
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// latencies returns the latencies of endpoints and event types.
func (h *handler) latencies(r *http.Request, actor string) (b latencyBody, err error) {
	q := r.URL.Query()
	f, err := readFilter(q, subscriptionFilters...)
	if err == nil && (q.Has("after") || q.Has("limit")) {
		err = badRequest("this list is not paginated: leave out after and limit")
	}
	if err := cmp.Or(h.allow(r, actor, attemptsAction(f.Filter)), err); err != nil {
		return b, err
	}
	b.LatencySample, err = h.admin.Latency(r.Context(), f.Filter)
	b.Endpoints, b.Types = latencyRows(b.LatencySample.Endpoints), latencyRows(b.LatencySample.Types)
	return b, err
}

// delayReason returns the reason for a subscription's delay.
func (h *handler) delayReason(r *http.Request, actor string) (d operator.Delay, err error) {
	i, err := h.subscription(r, actor, Attempts)
	if err != nil {
		return d, err
	}
	return h.admin.Why(r.Context(), i.ID)
}

// windowPages registers the pages of events between two times and of latencies.
func (h *handler) windowPages(add adder) {
	add("GET", "/events", func(w http.ResponseWriter, r *http.Request, actor string) {
		v := view{Title: "Events", Filter: r.URL.Query()}
		if h.authorize(r, actor, Action{Verb: ListTypes}) == nil {
			v.Types = h.admin.EventTypes(r.Context())
		}
		if strings.TrimSpace(v.Filter.Get("since")) == "" {
			if h.authorizeOrFail(w, r, actor, Action{Verb: FindOccurrence}) {
				h.render(w, r, http.StatusOK, "events.html", v)
			}
			return
		}
		p, err := h.eventsBetween(r, actor)
		if err != nil {
			h.fail(w, r, "the events", err)
			return
		}
		// The next page covers the same times, even if the query gave them relative to now.
		q := r.URL.Query()
		q.Set("since", formatTime(p.Since))
		q.Set("until", formatTime(p.Until))
		r.URL.RawQuery = q.Encode()
		v.Window, v.More = &p, nextPageURL(r, p.Next)
		h.render(w, r, http.StatusOK, "events.html", v)
	})
	add("GET", "/latency", reading(h, "the latency", h.latencies, func(w http.ResponseWriter, r *http.Request, _ string, b latencyBody) {
		h.render(w, r, http.StatusOK, "latency.html", view{Title: "Latency", Filter: r.URL.Query(), Latency: &b})
	}))
}
