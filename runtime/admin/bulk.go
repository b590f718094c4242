package admin

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// bulkOf reads what a query wants to do to all that its filters take. Without a filter it has to say all=true, so that a
// forgotten one does nothing.
func bulkOf(q url.Values, more ...string) (b operator.Bulk, err error) {
	all := q.Get("all")
	f, err := readFilter(q, append([]string{"all"}, append(more, subscriptionFilters...)...)...)
	b.Filter = f.Filter
	switch {
	case err != nil:
		return b, err
	case q.Has("after") || q.Has("limit"):
		return b, badRequest("a bulk action has no pages")
	case all != "" && all != "true":
		return b, badRequest("all must be true or absent")
	case (f.Filter == operator.Filter{}) != (all == "true"):
		return b, badRequest("give filters, or all=true for all subscriptions")
	}
	return b, nil
}

// on is the action of a bulk, for Authorize.
func on(b operator.Bulk) Action {
	return Action{Verb: Verb(b.Verb), Principal: b.Filter.Principal, Event: b.Filter.Event, Host: strings.ToLower(b.Filter.Host)}
}

// preview tells how many subscriptions the query's bulk action would do now.
func (h *handler) preview(w http.ResponseWriter, r *http.Request, actor string) (b operator.Bulk, n int, ok bool) {
	b, err := bulkOf(r.URL.Query(), "verb", "since", "until")
	if err == nil {
		b.Since, err = readTime("since", r.URL.Query().Get("since"))
	}
	if err == nil {
		b.Until, err = readTime("until", r.URL.Query().Get("until"))
	}
	b.Verb = operator.BulkVerb(cut(r.URL.Query().Get("verb")))
	if !h.allowed(w, r, actor, on(b)) {
		return b, 0, false
	}
	if err == nil {
		n, err = h.admin.Preview(r.Context(), b)
	}
	if err != nil {
		h.fail(w, r, "the action", err)
		return b, 0, false
	}
	return b, n, true
}

// asked is the bulk action of a task.
func (t *task) asked() operator.Bulk {
	return operator.Bulk{Verb: operator.BulkVerb(t.action.Verb), Filter: t.filter, Since: t.since, Until: t.until, PerSecond: t.request.PerSecond}
}

// readBulk adds to a task, and to what is wrong with it, what the query says: the filters of a bulk action.
func readBulk(r *http.Request, t task, err error) (task, error) {
	b, wrong := bulkOf(r.URL.Query())
	b.Verb = operator.BulkVerb(cut(t.request.Verb))
	t.action, t.filter = on(b), b.Filter
	if err == nil {
		err = wrong
	}
	return t, err
}

// beginTask is read as a verb until the body has told which one it is.
const beginTask Verb = "begin"

// begin serves the beginning of a bulk action by the API.
func (h *handler) begin(w http.ResponseWriter, r *http.Request, actor string) {
	t, err := readTask(w, r, beginTask)
	t, err = readBulk(r, t, err)
	if out, ok := h.act(w, r, actor, t, err); ok {
		out.write(w)
	}
}

// tasks returns all tasks.
func (h *handler) tasks(w http.ResponseWriter, r *http.Request, actor string) (all []taskBody, ok bool) {
	if !h.allowed(w, r, actor, Action{Verb: ListTasks}) {
		return nil, false
	}
	found, err := h.admin.Tasks(r.Context())
	if err != nil {
		h.fail(w, r, "the tasks", err)
		return nil, false
	}
	return tasksOf(found), true
}

// task returns the task that the path names.
func (h *handler) task(w http.ResponseWriter, r *http.Request, actor string) (t operator.Task, ok bool) {
	id := r.PathValue("id")
	if !h.allowed(w, r, actor, Action{Verb: ListTasks, Task: id}) {
		return t, false
	}
	t, err := h.admin.Task(r.Context(), id)
	if err != nil {
		h.fail(w, r, "the task", err)
		return t, false
	}
	return t, true
}

// tasksPage lists tasks; bulkPage shows what one would do, and begins it by a button.
func (h *handler) tasksPage(w http.ResponseWriter, r *http.Request, actor string) {
	if all, ok := h.tasks(w, r, actor); ok {
		h.render(w, r, http.StatusOK, "tasks.html", view{Title: "Tasks", Tasks: all})
	}
}

func (h *handler) bulkPage(w http.ResponseWriter, r *http.Request, actor string) {
	b, n, ok := h.preview(w, r, actor)
	if !ok {
		return
	}
	q := r.URL.Query()
	q.Del("verb")
	q.Del("since")
	q.Del("until")
	v := bulkView{Verb: string(b.Verb), Total: int64(n), Filter: written(b.Filter), Since: written8601(b.Since), Until: written8601(b.Until), Query: template.URL(q.Encode())} // escaped by that
	title := v.name(b.Verb, b.Filter.Host)
	h.render(w, r, http.StatusOK, "bulk.html", view{Title: title, Bulk: &v})
}

// name adds how the page names what is counted and its button, and returns the page's title. host is "" for any.
func (v *bulkView) name(verb operator.BulkVerb, host string) (title string) {
	whom := ""
	if host != "" {
		whom = " of " + host
	}
	switch verb {
	case operator.BulkSend:
		v.Counted, v.Button = "Events to send now", "Send "+counted(v.Total, "event")+" again"
		return "Send again what failed" + whom
	case operator.BulkEndReplay:
		v.Counted, v.Button = "Replays to end now", "End "+counted(v.Total, "replay")
		return "End replays" + whom
	}
	do := strings.ToUpper(string(verb[:1])) + string(verb[1:])
	v.Counted, v.Button = "Subscriptions to "+string(verb)+" now", do+" "+counted(v.Total, "subscription")
	return do + " " + cmp.Or(host, "subscriptions")
}

// written8601 is a time of a bulk action as a form has it: the one that was previewed.
func written8601(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// A bulkView is a bulk action that may be begun.
type bulkView struct {
	Verb  string
	Total int64
	// Counted names what Total counts, and Button says what begins.
	Counted, Button string
	Filter          map[string]string
	Since           string // "" for none, as Until
	Until           string
	Query           template.URL
}
