package admin

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// noteTime is the maximum time for recording a completed action.
const noteTime = 5 * time.Second

// auditEntry returns the audit entry for a completed task.
func (t *task) auditEntry(at time.Time, actor string, out outcome) operator.AuditEntry {
	a, q := &t.action, &t.request
	e := operator.AuditEntry{At: at, Actor: actor, Verb: string(a.Verb), Subscription: a.Subscription, Connection: a.Connection, Rejected: a.Rejected,
		Principal: a.Principal, Event: a.Event, EventID: q.EventID, Key: t.key, Status: out.Status, Outcome: out.Detail}
	asked := map[string]string{}
	if q.Cursor != nil {
		asked["cursor"] = *q.Cursor
	}
	if len(q.Events) > 1 {
		asked["events"] = strings.Join(q.Events, " ")
	}
	if q.Since != "" {
		asked["since"] = plain.Time(t.since)
	}
	if q.Until != "" {
		asked["until"] = plain.Time(t.until)
	}
	if q.Position != 0 {
		asked["position"] = strconv.FormatUint(q.Position, 10)
	}
	if q.Seen != "" {
		asked["seen"] = plain.Time(t.seen)
	}
	for i, name := range slices.Sorted(maps.Keys(asked)) {
		if i > 0 {
			e.Asked += ", "
		}
		e.Asked += name + " " + asked[name]
	}
	return e
}

// recordAudit records a completed action in the logger and the store's audit log, and calls the Audit hook. If that
// fails, the action is not undone.
func (h *handler) recordAudit(ctx context.Context, e operator.AuditEntry) {
	h.log.LogAttrs(ctx, slog.LevelInfo, "operator's action", slog.Group("audit",
		slog.String("actor", e.Actor), slog.String("verb", e.Verb), slog.String("subscription", e.Subscription), slog.String("connection", e.Connection),
		slog.String("rejected", e.Rejected), slog.String("principal", e.Principal),
		slog.String("event", e.Event), slog.String("eventId", e.EventID), slog.String("asked", e.Asked), slog.String("key", e.Key), slog.Int("status", e.Status)))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if err := h.admin.Note(ctx, e); err != nil {
		h.log.LogAttrs(ctx, slog.LevelError, "admin: the audit log has not kept an action", slog.String("key", e.Key), slog.Any("error", err))
	}
	if h.audit != nil {
		h.audit(e)
	}
}

// An auditPage is a page of the audit log.
type auditPage struct {
	Entries []operator.AuditEntry `json:"entries"`
	Next    string                `json:"next,omitempty"`
}

// auditFilters lists the query parameters that filter the audit log.
var auditFilters = []string{"actor", "verb", "subscription", "principal", "event", "eventId", "since"}

// auditLog returns a page of the audit log.
func (h *handler) auditLog(r *http.Request, actor string) (p auditPage, err error) {
	f, before, limit, err := readAudit(r.URL.Query())
	if err := cmp.Or(h.allow(r, actor, Action{Verb: ListAudit, Subscription: f.Subscription, Principal: f.Principal, Event: f.Event}), err); err != nil {
		return p, err
	}
	found, next, err := h.admin.Audit(r.Context(), f, before, limit)
	p.Entries = append([]operator.AuditEntry{}, found...)
	if next != 0 {
		p.Next = strconv.FormatUint(uint64(next), 10)
	}
	return p, err
}

// readAudit parses a query of the audit log.
func readAudit(q url.Values) (f operator.AuditFilter, before store.Position, limit int, err error) {
	g, err := readFilter(q, auditFilters...)
	f.Principal, f.Event = g.Principal, g.Event
	if err != nil {
		return f, 0, 0, err
	}
	f.Actor, f.Verb, f.Subscription, f.EventID = q.Get("actor"), q.Get("verb"), q.Get("subscription"), q.Get("eventId")
	if f.Since, err = readTime("since", q.Get("since")); err != nil {
		return f, 0, 0, err
	}
	if g.after != "" {
		var n uint64
		if n, err = strconv.ParseUint(g.after, 10, 63); err != nil || n == 0 {
			err = badRequest("after is not a page cursor")
		}
		before = store.Position(n)
	}
	return f, before, g.limit, err
}

// auditPages registers the audit log in the console and the API.
func (h *handler) auditPages(add adder) {
	add("GET", "/api/audit", reading(h, "the audit log", h.auditLog, answerOK))
	add("GET", "/audit", reading(h, "the audit log", h.auditLog, func(w http.ResponseWriter, r *http.Request, _ string, p auditPage) {
		h.render(w, r, http.StatusOK, "audit.html", view{Title: "Audit", Filter: r.URL.Query(), Audit: p.Entries, More: nextPageURL(r, p.Next)})
	}))
}
