package admin

import (
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// An activityBody is the API's JSON form of an operator.Activity.
type activityBody struct {
	Event   string       `json:"event,omitempty"`
	Host    string       `json:"host,omitempty"`
	Hour    minuteBody   `json:"hour"`
	Minutes []minuteBody `json:"minutes"`
}

type minuteBody struct {
	At       time.Time `json:"at,omitzero"`
	Attempts int64     `json:"attempts"`
	Failures int64     `json:"failures"`
	P50Ms    float64   `json:"p50Ms"`
	P95Ms    float64   `json:"p95Ms"`
	P99Ms    float64   `json:"p99Ms"`
	Behind   *int64    `json:"behind,omitempty"`
}

func minuteOf(m operator.Minute) minuteBody {
	return minuteBody{m.At, m.Attempts, m.Failures, milliseconds(m.P50), milliseconds(m.P95), milliseconds(m.P99), m.Behind}
}

// serveActivity responds with the results of delivery attempts in the last hour.
func (h *handler) serveActivity(w http.ResponseWriter, r *http.Request, actor string) {
	q := r.URL.Query()
	f, err := readFilter(q, "event", "host")
	if err == nil && (q.Has("after") || q.Has("limit")) {
		err = badRequest("this list has no pages")
	}
	if !h.authorizeOrFail(w, r, actor, activityAction(f.Event, f.Host)) {
		return
	}
	f.Host = strings.ToLower(f.Host)
	var a operator.Activity
	if err == nil {
		a, err = h.admin.Activity(f.Event, f.Host)
	}
	if err != nil {
		h.fail(w, r, "the activity", err)
		return
	}
	body := activityBody{Event: f.Event, Host: f.Host, Hour: minuteOf(a.Whole), Minutes: make([]minuteBody, len(a.Minutes))}
	for i, m := range a.Minutes {
		body.Minutes[i] = minuteOf(m)
	}
	answer(w, http.StatusOK, body)
}

// activityAction returns the action for reading the activity of an event type, of a host, or of all attempts.
func activityAction(event, host string) Action {
	switch {
	case host != "":
		return Action{Verb: ListSubscriptions, Event: event, Host: host}
	case event != "":
		return Action{Verb: ShowType, Event: event}
	}
	return Action{Verb: ListTypes}
}

// hourCharts returns the charts for the last hour. It returns nil if the actor may not see them or webhook delivery is
// disabled.
func (h *handler) hourCharts(r *http.Request, actor, event, host string) *chartSet {
	if h.authorize(r, actor, activityAction(event, host)) != nil {
		return nil
	}
	a, err := h.admin.Activity(event, strings.ToLower(host))
	if err != nil || len(a.Minutes) == 0 {
		return nil
	}
	return draw(&a)
}
