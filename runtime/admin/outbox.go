package admin

import (
	"net/http"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A rejectedPage is a page of rejected outbox entries.
type rejectedPage struct {
	Rejected []operator.Rejected `json:"rejected"`
	Next     string              `json:"next,omitempty"`
}

// rejectedEntries returns a page of rejected outbox entries. If ok is false, it has written an error response.
func (h *handler) rejectedEntries(w http.ResponseWriter, r *http.Request, actor string) (p rejectedPage, ok bool) {
	if !h.authorizeOrFail(w, r, actor, Action{Verb: ListOutbox}) {
		return p, false
	}
	f, err := readFilter(r.URL.Query())
	var after int64
	if err == nil && f.after != "" {
		if after, err = strconv.ParseInt(f.after, 10, 64); err != nil {
			err = badRequest("after is not a page cursor")
		}
	}
	if err == nil {
		p.Rejected, err = h.admin.Rejected(r.Context(), after, f.limit+1)
	}
	if err != nil {
		h.fail(w, r, "the list", err)
		return p, false
	}
	if len(p.Rejected) > f.limit {
		p.Rejected = p.Rejected[:f.limit]
		p.Next = strconv.FormatInt(p.Rejected[f.limit-1].ID, 10)
	}
	if p.Rejected == nil {
		p.Rejected = []operator.Rejected{}
	}
	return p, true
}

// rejectedID parses the id of an outbox entry.
func (t *task) rejectedID() (int64, error) {
	id, err := strconv.ParseInt(t.action.Rejected, 10, 64)
	if err != nil {
		return 0, fault.NotFound("occurrence") // all ids are integers
	}
	return id, nil
}
