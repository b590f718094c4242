package transport

import (
	"fmt"
	"net/http"
	"sync"
)

const (
	// defaultMaxOpen is HandlerOptions.MaxOpen when that is 0, defaultMaxSessions MaxSessions.
	defaultMaxOpen     = 4096
	defaultMaxSessions = 1024
	// nobodysShare is how many times as much callers without a principal have, all together.
	nobodysShare = 16
)

// openCount counts what is open by whose it is, so that beyond a bound only that one is refused (CAP-7).
type openCount struct {
	max int // of a principal; negative for no bound

	mu sync.Mutex
	by map[string]int
}

func newOpenCount(given, otherwise int) *openCount {
	if given == 0 {
		given = otherwise
	}
	return &openCount{max: given, by: map[string]int{}}
}

// enter takes a place; leave gives it back. what is for the answer to who gets none.
func (o *openCount) enter(w http.ResponseWriter, principal, what string) bool {
	limit := o.max
	if principal == "" {
		limit *= nobodysShare
	}
	o.mu.Lock()
	ok := limit < 0 || o.by[principal] < limit
	if ok {
		o.by[principal]++
	}
	o.mu.Unlock()
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d %s of this caller are open, the maximum", limit, what), http.StatusTooManyRequests)
	}
	return ok
}

func (o *openCount) leave(principal string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by[principal]--; o.by[principal] <= 0 {
		delete(o.by, principal)
	}
}

// initialize serves a request that begins a legacy session, which counts until it ends.
func (h *handler) initialize(w http.ResponseWriter, r *http.Request, p *posted) {
	principal, _ := h.caller(r)
	if !h.begun.enter(w, principal, "sessions") {
		return
	}
	h.toSDK(h.legacy, w, r, p)
	id := w.Header().Get(headerSession)
	for ss := range h.srv.Sessions() {
		if id != "" && ss.ID() == id {
			go func() {
				_ = ss.Wait()
				h.begun.leave(principal)
			}()
			return
		}
	}
	h.begun.leave(principal) // refused, or over already
}
