package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Bounds of one page of Handler.
const (
	defaultAdminPage = 100
	maxAdminPage     = 1000
)

// Handler serves what [Admin.List] and [Admin.Get] tell as JSON, for reading only. Mount it behind
// the operator's own authentication: it shows callback URLs and arguments of all principals, never
// secrets or payloads.
//
// ?id=ID gives one subscription, 404 when there is none. Otherwise ?after=ID&limit=N gives
// {"subscriptions":[…],"next":ID}, next being absent on the last page; &principal= and &event=
// leave others out of it.
func (a *Admin) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "read only", http.StatusMethodNotAllowed)
			return
		}
		q := r.URL.Query()
		if id := q.Get("id"); id != "" {
			i, err := a.Get(r.Context(), id)
			a.answer(w, r, i, err)
			return
		}
		limit := defaultAdminPage
		if text := q.Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				http.Error(w, "limit must be a positive integer", http.StatusBadRequest)
				return
			}
			limit = min(n, maxAdminPage)
		}
		page, err := a.List(r.Context(), q.Get("after"), limit)
		var res struct {
			Subscriptions []WebhookInfo `json:"subscriptions"`
			Next          string        `json:"next,omitempty"`
		}
		if len(page) == limit {
			res.Next = page[len(page)-1].ID
		}
		res.Subscriptions = []WebhookInfo{}
		for _, i := range page {
			if p := q.Get("principal"); p != "" && i.Principal != p {
				continue
			}
			if e := q.Get("event"); e != "" && i.Event != e {
				continue
			}
			res.Subscriptions = append(res.Subscriptions, i)
		}
		a.answer(w, r, res, err)
	})
}

func (a *Admin) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	switch {
	case errors.Is(err, events.ErrNotFound):
		http.Error(w, "no such subscription", http.StatusNotFound)
		return
	case err != nil:
		a.s.log.Internal(r.Context(), "answering the admin handler", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(b, '\n'))
}
