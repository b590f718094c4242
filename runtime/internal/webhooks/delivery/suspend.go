package delivery

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// failures describes the failed attempts so far and the suspension that they have caused. Its first fields are a compact
// store.Health.
type failures struct {
	suspended                   bool
	suspendedAfter, failedSince instant
	category                    string // of the last failed attempt
	status                      int
	at                          instant
	abandoned                   store.HourCount
	suspendedAt                 instant // when the suspension began in this process
	failing                     instant // first failure of the current run since this engine started
}

// failuresOf returns the failures in a stored record, or nil if no attempt has failed.
func failuresOf(s *store.Subscription, now time.Time) *failures {
	r := cmp.Or(s.Report, &store.Report{})
	f := failures{suspended: s.Health.Suspended, suspendedAfter: instantOf(s.Health.SuspendedAfter), failedSince: instantOf(s.Health.FailedSince),
		category: s.Health.LastError, status: r.LastStatus, at: instantOf(r.LastErrorAt), abandoned: r.Abandoned}
	if f == (failures{}) {
		return nil
	}
	if f.suspended {
		f.suspendedAt, f.failing = instantOf(now), instantOf(now)
	}
	return &f
}

// ensureFailures returns the failures so far, which the caller can change.
func (h *Handle) ensureFailures() *failures {
	if h.failures == nil {
		h.failures = &failures{}
	}
	return h.failures
}

// pastFailures returns a copy of the failures so far.
func (h *Handle) pastFailures() failures { return *cmp.Or(h.failures, &failures{}) }

// isSuspended reports whether deliveries are suspended.
func (h *Handle) isSuspended() bool { return h.failures != nil && h.failures.suspended }

// storedHealth returns the health to store.
func (h *Handle) storedHealth() store.Health {
	f := h.pastFailures()
	return store.Health{Suspended: f.suspended, SuspendedAfter: f.suspendedAfter.time(), FailedSince: f.failedSince.time(),
		LastDeliveryAt: h.lastDelivery.time(), LastError: f.category, Slow: h.slow}
}

// windowSlices is the number of slices of a [Suspension]'s window.
const windowSlices = 12

// An attemptCounts counts attempts and failures in a sliding window with a resolution of one slice.
type attemptCounts struct {
	slice  int64 // number of the newest slice
	counts [windowSlices]struct{ all, failed uint32 }
	first  instant // first failure after a window without failures
}

// sliceLength returns the length of a slice in nanoseconds.
func sliceLength(window time.Duration) int64 { return max(int64(window)/windowSlices, 1) }

func (a *attemptCounts) add(now time.Time, window time.Duration, failed bool) {
	slice := now.UnixNano() / sliceLength(window)
	for n := min(slice-a.slice, windowSlices); n > 0; n-- {
		a.counts[(slice-n+1)%windowSlices] = struct{ all, failed uint32 }{}
	}
	a.slice = max(slice, a.slice)
	c := &a.counts[a.slice%windowSlices]
	c.all++
	if failed {
		if _, before, _ := a.sum(); before == 0 {
			a.first = instantOf(now)
		}
		c.failed++
	}
}

// sum returns the numbers of attempts and failures in the window, and the number of the oldest slice with a failure.
func (a *attemptCounts) sum() (all, failed uint64, oldest int64) {
	for slice := a.slice; slice > a.slice-windowSlices; slice-- {
		c := a.counts[(slice+windowSlices)%windowSlices]
		all += uint64(c.all)
		failed += uint64(c.failed)
		if c.failed > 0 {
			oldest = slice
		}
	}
	return all, failed, oldest
}

// exceedsLimits reports whether the attempts in the window exceed the limits of s after a failure at the given time.
func (a *attemptCounts) exceedsLimits(now time.Time, s Suspension) bool {
	all, failed, oldest := a.sum()
	since := max(a.first, instant(oldest*sliceLength(s.Window)))
	return all >= uint64(s.Min) && float64(failed) > s.Rate*float64(all) && instantOf(now)-since >= instant(s.Span)
}

// countAttempt counts an attempt whose result reflects the endpoint's health. It suspends the subscription after too
// many failures (HOOK-5).
func (h *Handle) countAttempt(now time.Time, failed bool) {
	if h.stats == nil {
		h.stats = &attemptCounts{}
	}
	o := &h.e.o
	h.stats.add(now, o.Suspend.Window, failed)
	if failed && !h.isSuspended() && h.stats.exceedsLimits(now, o.Suspend) {
		f := h.ensureFailures()
		f.suspended, f.suspendedAt, f.suspendedAfter = true, instantOf(now), h.refreshed
		h.stats = nil
		for _, u := range h.window {
			u.item = nil // reread after a refresh
		}
		h.e.scheduleWrite(h)
		h.e.queueLog(slog.LevelWarn, "webhook subscription suspended", h, h.lastErrorAttrs()...)
	}
}

// resume ends a suspension. Pending occurrences keep their retry state, and the time of the suspension does not count
// toward their retry windows.
func (h *Handle) resume(now time.Time) {
	if !h.isSuspended() {
		return
	}
	f := h.failures
	if h.pausedAt == 0 { // otherwise Unpause counts the time
		h.extendWindows(now.Sub(f.suspendedAt.time()))
	}
	f.suspended, f.suspendedAt, f.suspendedAfter = false, 0, 0
	h.notUntil = 0
	h.e.scheduleWrite(h)
	h.e.queueLog(slog.LevelInfo, "webhook subscription resumed", h)
}

// extendWindows extends the retry windows by d, the duration of a period without attempts.
func (h *Handle) extendWindows(d time.Duration) {
	d = max(d, 0)
	for _, u := range h.window {
		if u.first != 0 {
			u.first = u.first.plus(d)
		}
	}
	for _, c := range h.controls {
		if c.first != 0 {
			c.first = c.first.plus(d)
		}
	}
}

// isStopped reports whether deliveries are suspended or paused.
func (h *Handle) isStopped() bool { return h.isSuspended() || h.pausedAt != 0 }

// Pause stops deliveries at the given time until [Handle.Unpause] is called. A refresh or resume does not restart them.
// Attempts in flight finish. The subscription can still expire. The caller stores the pause in the record.
func (h *Handle) Pause(at time.Time) {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.hasEnded() || h.pausedAt != 0 {
		return
	}
	h.pausedAt = instantOf(at)
	for _, u := range h.window {
		u.item = nil // reread afterwards
	}
	h.e.queueLog(slog.LevelInfo, "webhook subscription paused", h)
	h.e.schedule(h, at)
}

// Unpause resumes deliveries at the position where they stopped. Retry windows exclude the pause. Entries that the log
// has evicted during the pause result in a gap. A suspension remains.
func (h *Handle) Unpause() {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.hasEnded() || h.pausedAt == 0 {
		return
	}
	now := h.e.now()
	since := h.pausedAt.time()
	if h.isSuspended() {
		f := h.failures
		if f.suspendedAt.time().Before(since) {
			since = f.suspendedAt.time()
		}
		f.suspendedAt = instantOf(now) // the rest is counted when the suspension ends
	}
	h.extendWindows(now.Sub(since))
	h.pausedAt = 0
	h.e.queueLog(slog.LevelInfo, "webhook subscription continues after a pause", h)
	h.e.schedule(h, now)
}

// hasFailedTooLong reports whether a subscription without expiry has failed for too long. For suspended subscriptions,
// the timer performs this check. For other subscriptions, the check is performed only after a failure.
func (h *Handle) hasFailedTooLong(now time.Time) bool {
	first := h.pastFailures().failing
	return h.expires == 0 && first != 0 && now.Sub(first.time()) >= h.e.o.NoExpiryRemoval
}

// terminateFailing terminates a subscription that has failed for too long.
func (h *Handle) terminateFailing() {
	reason := wire.Category(h.pastFailures().category).ForSubscriber()
	data, _ := json.Marshal(map[string]wire.Category{"reason": reason}) // a map of strings: cannot fail
	h.e.queueLog(slog.LevelWarn, "webhook subscription without expiry removed", h, h.lastErrorAttrs()...)
	h.terminate(wire.ErrorObject{Code: h.dialect.Code(wire.CallbackEndpointError), Message: wire.CallbackEndpointError.String(), Data: data})
}
