package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// An abandonedPage is a page of abandoned events.
type abandonedPage struct {
	Abandoned []abandonedBody `json:"abandoned"`
	Next      string          `json:"next,omitempty"`
}

// An abandonedBody is the API's JSON form of an [operator.Abandoned].
type abandonedBody struct {
	operator.Abandoned
	Attempt attempt `json:"attempt"`
}

// abandonedEvents returns a page of the events that were abandoned since the given time.
func (h *handler) abandonedEvents(r *http.Request, actor string) (p abandonedPage, err error) {
	f, since, until, err := readSince(r.URL.Query(), subscriptionFilters...)
	if err == nil && since.IsZero() {
		err = badRequest("the query parameter since is missing")
	}
	if err := cmp.Or(h.allow(r, actor, attemptsAction(f.Filter)), err); err != nil {
		return p, err
	}
	found, next, err := h.admin.Abandoned(r.Context(), f.Filter, since, until, f.after, f.limit)
	p = abandonedPage{[]abandonedBody{}, next}
	for _, a := range found {
		a.URL = operator.ShownURL(a.URL)
		p.Abandoned = append(p.Abandoned, abandonedBody{a, shownAttempt(a.Attempt)})
	}
	return p, err
}

// attemptsAction returns the action for reading the attempts of all subscriptions that match the filter.
func attemptsAction(f operator.Filter) Action {
	return Action{Verb: Attempts, Principal: f.Principal, Event: f.Event, Host: strings.ToLower(f.Host)}
}

// readSince parses the filters in known and the time range of a query.
func readSince(q url.Values, known ...string) (f filter, since, until time.Time, err error) {
	f, err = readFilter(q, append([]string{"since", "until"}, known...)...)
	if err == nil {
		since, err = readTime("since", q.Get("since"))
	}
	if err == nil {
		until, err = readTime("until", q.Get("until"))
	}
	return f, since, until, err
}
