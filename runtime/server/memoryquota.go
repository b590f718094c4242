package server

import (
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// memoryUsage counts the bytes kept for callers between requests (CAP-5). It counts pollers until their leases expire,
// and webhook subscriptions until they end. It does not count live streams and held polls, which are limited by their
// connections.
type memoryUsage struct {
	limits Quota

	mu    sync.Mutex
	by    map[string]int // principal → bytes
	total int
}

// anonymousShare is the divisor for the combined quota of callers without a principal, which is a quarter of the total.
// Such callers are indistinguishable. With the quota of one principal, a single caller could lock out everyone else on
// a server without authentication. With a quarter of the total, they cannot exhaust the quota of callers with a
// principal.
const anonymousShare = 4

// charge charges n bytes to the principal. If that exceeds a quota, it charges nothing and returns ResourceExhausted.
func (h *memoryUsage) charge(principal string, n int) error {
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

// chargeRestored charges a previously accepted subscription to the principal, even above the quota.
func (h *memoryUsage) chargeRestored(principal string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(principal, n)
}

// release refunds n bytes to the principal.
func (h *memoryUsage) release(principal string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(principal, -n)
}

func (h *memoryUsage) add(principal string, n int) {
	if h.by == nil {
		h.by = map[string]int{}
	}
	h.total += n
	if h.by[principal] += n; h.by[principal] == 0 {
		delete(h.by, principal)
	}
}
