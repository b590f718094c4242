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

// anonymousShare is the divisor of the total that yields the combined quota of all callers without a principal. Such
// callers are indistinguishable. If they shared the quota of one principal, a single caller could lock out all others
// on a server without authentication. Because they share only a quarter of the total, they cannot exhaust the quota of
// callers with a principal.
const anonymousShare = 4

// Take adds n bytes to the principal's usage. If that would exceed a quota, it adds nothing and returns
// ResourceExhausted.
func (h *memoryUsage) Take(principal string, n int) error {
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

// Keep charges a previously accepted subscription to the principal, even above the quota.
func (h *memoryUsage) Keep(principal string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(principal, n)
}

// Give subtracts n bytes from the principal's usage.
func (h *memoryUsage) Give(principal string, n int) {
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
