package admin

import "net/http"

// maxFailing is the maximum number of failing subscriptions listed in the overview.
const maxFailing = 20

// overview serves the first page, with failing subscriptions at the top.
func (h *handler) overview(w http.ResponseWriter, r *http.Request, actor string) {
	if !h.authorizeOrFail(w, r, actor, Action{Verb: ListTypes}) {
		return
	}
	v := view{Title: "Overview", AllFailing: -1, Types: h.admin.EventTypes(r.Context()), Fresh: h.admin.Freshness(r.Context())}
	// Omit a section if its data cannot be read, because operators need the page most when there are problems.
	unread := func(what string, err error) {
		if err != nil {
			_, _, detail := h.classify(r.Context(), what, err)
			v.Unread = append(v.Unread, detail)
		}
	}
	// Show failing subscriptions only if the actor may list subscriptions.
	if h.authorize(r, actor, Action{Verb: ListSubscriptions}) == nil {
		f, err := h.admin.Failing(r.Context(), maxFailing)
		if unread("the failing endpoints", err); err == nil {
			v.Failing, v.AllFailing = f.Longest, f.Total
		}
		for i := range v.Failing {
			v.Failing[i] = withShownURL(v.Failing[i])
		}
	}
	if h.authorize(r, actor, Action{Verb: ListOutbox}) == nil {
		some, err := h.admin.Rejected(r.Context(), 0, 1)
		unread("the rejected events", err)
		v.AnyRejected = len(some) > 0
	}
	var err error
	v.Cluster, err = h.overviewCluster(r, actor)
	if unread("the cluster", err); v.Cluster != nil {
		v.Fresh.Missing = nil // they are among its problems
	}
	for _, t := range v.Types {
		if t.Counts != nil {
			v.Abandoned += t.Abandoned
		}
	}
	h.render(w, r, http.StatusOK, "overview.html", v)
}
