package server

import (
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// holdings counts the bytes kept for callers between their requests: for pollers until their leases lapse, for
// webhook subscriptions until they end (CAP-5). Live streams and held polls are bounded by their connections.
type holdings struct {
	limits Quota

	mu    sync.Mutex
	by    map[string]int // principal → bytes
	total int
}

// anonymousShare is the divisor that gives the quota of all callers without a principal: a quarter of the total.
// They are indistinguishable, so the quota of one principal would let a single caller lock out all others of a
// server without authentication. A quarter still prevents them from exhausting the total for callers with a
// principal.
const anonymousShare = 4

// take charges n bytes to the principal. Its error is ResourceExhausted; nothing is charged then.
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

// restore charges a subscription that was accepted before, even above the quota.
func (h *holdings) restore(principal string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(principal, n)
}

// give releases a charge.
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
