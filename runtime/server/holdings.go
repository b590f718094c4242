package server

import (
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// Holdings count what is kept for callers between their requests, in bytes: pollers until their
// leases lapse, webhook subscriptions until they end (CAP-5). Live streams and held polls are bounded
// by their connections.
type holdings struct {
	limits Quota

	mu    sync.Mutex
	by    map[string]int // principal → bytes
	total int
}

// anonymousShare is the part of the total that callers without a principal may have together. They
// cannot be told apart, so the share of one principal is not theirs: a single one of them could then
// lock out all others of a server without authentication. What they do have keeps them from taking
// everything from callers with a principal.
const anonymousShare = 4

// take charges the principal; an error is a ResourceExhausted that concerns this caller and nothing
// is charged.
func (h *holdings) take(principal string, n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	share := h.limits.PerPrincipal
	if principal == "" {
		share = h.limits.Total / anonymousShare
	}
	if share >= 0 && h.by[principal]+n > share {
		return fault.Exhausted("bytes", share)
	}
	if h.limits.Total >= 0 && h.total+n > h.limits.Total {
		return fault.Exhausted("bytes", h.limits.Total)
	}
	h.add(principal, n)
	return nil
}

// restore charges what was accepted before, whatever the bounds say.
func (h *holdings) restore(principal string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(principal, n)
}

// give takes a charge back.
func (h *holdings) give(principal string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(principal, -n)
}

func (h *holdings) add(principal string, n int) {
	if h.by == nil {
		h.by = map[string]int{}
	}
	h.total += n
	if h.by[principal] += n; h.by[principal] == 0 {
		delete(h.by, principal)
	}
}
