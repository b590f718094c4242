package admin

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	// maxItems is the maximum number of items that one press of the button handles. maxCounted is the maximum number of
	// items that the page counts.
	maxItems   = 50
	maxCounted = 1000
	// lookTime is the time after which no further pages of the list are read. manyTime is the time after which no
	// further items are started.
	lookTime = 5 * time.Second
	manyTime = 15 * time.Second
	// maxInARow is the number of consecutive failures after which the remaining items are skipped.
	maxInARow = 20
)

// A bulkAction is an action of the console on all subscriptions or events that match a filter.
type bulkAction struct {
	Verb         Verb
	Filter       operator.Filter
	Since, Until time.Time
	After        string
}

// An item is one step of a bulkAction, which is an event to resend or a subscription to act on.
type item struct {
	operator.WebhookInfo
	Attempt operator.Attempt // of an event to resend
}

// readMany parses a query for an action on all subscriptions or events that match its filters. A query without filters
// must include all=true, so forgetting a filter does no harm.
func readMany(q url.Values) (m bulkAction, err error) {
	m.Verb = Verb(cut(q.Get("verb")))
	f, since, until, err := readSince(q, append([]string{"verb", "all"}, subscriptionFilters...)...)
	m.Filter, m.Since, m.Until, m.After = f.Filter, since, until, f.after
	all := q.Get("all")
	switch {
	case err != nil:
		return m, err
	case !slices.Contains([]Verb{Pause, Unpause, Resume, Replay, EndReplay, Send}, m.Verb):
		return m, badRequest("verb must be pause, unpause, resume, replay, endreplay or send")
	case q.Has("limit"):
		return m, badRequest("an action does not accept limit")
	case all != "" && all != "true":
		return m, badRequest("all must be true or absent")
	case (m.Filter == operator.Filter{}) != (all == "true"):
		return m, badRequest("give filters, or all=true for all subscriptions")
	case m.hasTimeRange() == m.Since.IsZero():
		return m, badRequest("replay and send require since; other actions do not accept it")
	case !m.Until.IsZero() && (!m.hasTimeRange() || !m.Until.After(m.Since)):
		return m, badRequest("until must be after since, and is only for replay and send")
	}
	if m.Verb == Send && m.Until.IsZero() {
		m.Until = time.Now() // do not resend an event that fails again
	}
	return m, nil
}

// hasTimeRange reports whether the verb applies to events in a time range.
func (m *bulkAction) hasTimeRange() bool { return m.Verb == Replay || m.Verb == Send }

// query returns the query for m in the form that readMany parses.
func (m *bulkAction) query(after string) string {
	q := url.Values{"verb": {string(m.Verb)}}
	for name, value := range filterParams(m.Filter) {
		q.Set(name, value)
	}
	if len(q) == 1 {
		q.Set("all", "true")
	}
	for name, value := range map[string]string{"since": formatTime(m.Since), "until": formatTime(m.Until), "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// appliesTo reports whether the action would have an effect on the subscription.
func (m *bulkAction) appliesTo(i *operator.WebhookInfo) bool {
	if i.State == operator.StateUnreadable {
		return false
	}
	switch m.Verb {
	case Pause:
		return i.State != operator.StatePaused && i.Unreadable == ""
	case Unpause:
		return i.State == operator.StatePaused && i.Unreadable == ""
	case Resume:
		return i.State == operator.StateSuspended
	case EndReplay:
		return i.Replay != nil
	}
	return true
}

// findItems returns up to limit items in list order, and the after parameter for the next page. It stops searching
// after lookTime, so it can return fewer items even if others follow.
func (h *handler) findItems(ctx context.Context, m *bulkAction, limit int) (found []item, next string, err error) {
	f := m.Filter
	if m.Verb == Unpause && f.State == "" {
		f.State = operator.StatePaused
	}
	if m.Verb == Resume && f.State == "" {
		f.State = operator.StateSuspended
	}
	next = m.After
	for began := time.Now(); ; {
		if m.Verb == Send {
			var some []operator.Abandoned
			some, next, err = h.admin.Abandoned(ctx, f, m.Since, m.Until, next, limit-len(found))
			for _, a := range some {
				found = append(found, item{operator.WebhookInfo{ID: a.Subscription, Principal: a.Principal, Event: a.Attempt.Event, URL: a.URL}, a.Attempt})
			}
		} else {
			var some []operator.WebhookInfo
			some, next, err = h.admin.Find(ctx, f, next, limit-len(found))
			for n := range some {
				if m.appliesTo(&some[n]) {
					found = append(found, item{WebhookInfo: some[n]})
				}
			}
		}
		if err != nil || next == "" || len(found) == limit || time.Since(began) > lookTime {
			return found, next, err
		}
	}
}

// canList reports whether the actor may read the list of items. If the actor may not, it writes an error response.
func (h *handler) canList(w http.ResponseWriter, r *http.Request, actor string, m *bulkAction) bool {
	if m.Verb == Send {
		return h.authorizeOrFail(w, r, actor, attemptsAction(m.Filter))
	}
	return h.authorizeOrFail(w, r, actor, Action{Verb: ListSubscriptions, Principal: m.Filter.Principal, Event: m.Filter.Event})
}

// A manyView is the template data for the page of a bulkAction.
type manyView struct {
	bulkAction
	Filter map[string]string
	// Total is the number of items found. More reports whether there are further items. Items contains the first items.
	Total int64
	More  bool
	Items []item
	// Counted is the label for Total, and Button is the label of the button.
	Counted, Button string
	Query           template.URL // of the button's action
	// Result is the result of pressing the button, or nil before it is pressed.
	Result *manyResult
}

// manyPage shows the items, with a button that handles the first page of items.
func (h *handler) manyPage(w http.ResponseWriter, r *http.Request, actor string) {
	m, err := readMany(r.URL.Query())
	if !h.canList(w, r, actor, &m) {
		return
	}
	v, after := m.newView(m.After), ""
	if err == nil {
		v.Items, after, err = h.findItems(r.Context(), &m, maxCounted)
	}
	if err != nil {
		h.fail(w, r, "the action", err)
		return
	}
	v.Total, v.More = int64(len(v.Items)), after != ""
	v.Items = v.Items[:min(len(v.Items), maxItems)]
	for n := range v.Items {
		v.Items[n].WebhookInfo = withShownURL(v.Items[n].WebhookInfo)
	}
	if len(v.Items) == 0 {
		v.Query = template.URL(m.query(after)) // the next search begins there
	}
	v.setLabels(int64(len(v.Items)))
	h.render(w, r, http.StatusOK, "many.html", view{Title: m.title(), Many: v})
}

// Rows returns the subscription of each item.
func (v *manyView) Rows() (rows []operator.WebhookInfo) {
	for _, i := range v.Items {
		rows = append(rows, i.WebhookInfo)
	}
	return rows
}

// newView returns the template data for the action's page, with a button that continues after the given position.
func (m *bulkAction) newView(after string) *manyView {
	return &manyView{bulkAction: *m, Filter: filterParams(m.Filter), Query: template.URL(m.query(after))} // query escapes it
}

// title returns the title of the page.
func (m *bulkAction) title() string {
	host := strings.ToLower(m.Filter.Host)
	whom := ""
	if host != "" {
		whom = " of " + host
	}
	switch m.Verb {
	case Send:
		return "Resend failed events" + whom
	case EndReplay:
		return "End replays" + whom
	}
	return capital(m.Verb) + " " + cmp.Or(host, "subscriptions")
}

func capital(v Verb) string { return strings.ToUpper(string(v[:1])) + string(v[1:]) }

// setLabels sets the labels of the count and of the button, which handles n items.
func (v *manyView) setLabels(n int64) {
	switch v.Verb {
	case Send:
		v.Counted, v.Button = "Events to resend", "Resend "+countNoun(n, "event")
	case EndReplay:
		v.Counted, v.Button = "Replays to end", "End "+countNoun(n, "replay")
	default:
		v.Counted, v.Button = "Subscriptions to "+string(v.Verb), capital(v.Verb)+" "+countNoun(n, "subscription")
	}
}

// A manyResult is the result of handling one page of items.
type manyResult struct {
	// Done counts items that are done or requested. Skipped counts items that had ended or that another operator was
	// handling.
	Done    int
	Skipped int
	Failed  int
	// Left counts items that were not started. From is the subscription of the first such item, and Why is the reason.
	Left int
	From string
	Why  string
	// Subscriptions contains the subscriptions of these items. Failures contains the failed items.
	Subscriptions []string
	Failures      []failure
	// Next is the after parameter for the next page, or "" at the end of the list.
	Next string
}

// A failure describes an item that failed.
type failure struct {
	Subscription string
	EventID      string
	Why          string
}

// actOnMany handles one page of items when a button of the console is pressed. It shows the result.
func (h *handler) actOnMany(w http.ResponseWriter, r *http.Request, actor string) {
	form, err := parseForm(w, r)
	key := form.Get("key")
	if err == nil {
		err = checkKey(key)
	}
	m, wrong := readMany(r.URL.Query())
	if !h.canList(w, r, actor, &m) {
		return
	}
	if err = cmp.Or(err, wrong); err != nil {
		h.fail(w, r, "the action", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTime)
	defer cancel()
	found, next, err := h.findItems(ctx, &m, maxItems)
	if err != nil {
		h.fail(w, r, "the action", err)
		return
	}
	result := h.actOnItems(ctx, r, actor, key, &m, found, next)
	v := m.newView(result.Next)
	v.Result, v.Button = result, "Continue with the next page"
	h.render(w, r, http.StatusOK, "many.html", view{Title: m.title(), Many: v})
}

// actOnItems handles the items in order, each as a separate action.
func (h *handler) actOnItems(ctx context.Context, r *http.Request, actor, key string, m *bulkAction, found []item, next string) *manyResult {
	result := &manyResult{Next: next}
	inARow := 0
	for n, began := 0, time.Now(); n < len(found); n++ {
		switch {
		case inARow == maxInARow:
			result.Why = strconv.Itoa(maxInARow) + " consecutive failures"
		case time.Since(began) > manyTime:
			result.Why = "the time limit was reached"
		}
		if result.Why != "" {
			result.Left, result.From, result.Next = len(found)-n, found[n].ID, ""
			break
		}
		out := h.actOnItem(ctx, r, actor, key, m, &found[n])
		switch {
		case out.Code == "":
			result.Done++
			if !slices.Contains(result.Subscriptions, found[n].ID) {
				result.Subscriptions = append(result.Subscriptions, found[n].ID)
			}
		case out.Code == "not_found" || out.Code == "under_way":
			result.Skipped++
		default:
			result.Failed++
			inARow++
			result.Failures = append(result.Failures, failure{found[n].ID, found[n].Attempt.EventID, out.Detail})
			continue
		}
		inARow = 0
	}
	return result
}

// actOnItem handles an item if the actor is authorized.
func (h *handler) actOnItem(ctx context.Context, r *http.Request, actor, key string, m *bulkAction, i *item) outcome {
	t := task{action: Action{Verb: m.Verb, Subscription: i.ID, Principal: i.Principal, Event: i.Event}, key: key}
	if err := h.allow(r, actor, t.action); err != nil {
		return h.failureOutcome(ctx, "", err)
	}
	if m.Verb == Send {
		t.request.EventID, t.request.Seen, t.seen = i.Attempt.EventID, formatTime(i.Attempt.At), i.Attempt.At
	} else {
		t.request.Since, t.since, t.request.Until, t.until = formatTime(m.Since), m.Since, formatTime(m.Until), m.Until
	}
	return h.perform(ctx, actor, &t, nil)
}

// formatTime formats a time according to RFC 3339. It returns "" for the zero time.
func formatTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
