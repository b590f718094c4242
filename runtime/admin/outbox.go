package admin

import (
	"cmp"
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

// rejectedEntries returns a page of rejected outbox entries.
func (h *handler) rejectedEntries(r *http.Request, actor string) (p rejectedPage, err error) {
	f, err := readFilter(r.URL.Query())
	if err := cmp.Or(h.allow(r, actor, Action{Verb: ListOutbox}), err); err != nil {
		return p, err
	}
	var after int64
	if f.after != "" {
		if after, err = strconv.ParseInt(f.after, 10, 64); err != nil {
			return p, badRequest("after is not a page cursor")
		}
	}
	found, err := h.admin.Rejected(r.Context(), after, f.limit+1)
	p.Rejected = append([]operator.Rejected{}, found...)
	if len(p.Rejected) > f.limit {
		p.Rejected = p.Rejected[:f.limit]
		p.Next = strconv.FormatInt(p.Rejected[f.limit-1].ID, 10)
	}
	return p, err
}

// rejectedID parses the id of an outbox entry.
func (t *task) rejectedID() (int64, error) {
	id, err := strconv.ParseInt(t.action.Rejected, 10, 64)
	if err != nil {
		return 0, fault.NotFound("occurrence") // all ids are integers
	}
	return id, nil
}
