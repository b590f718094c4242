package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A pendingEvent is an occurrence that was read and neither acknowledged nor abandoned.
type pendingEvent struct {
	retryState
	position store.Position
	item     *Item // from reading to the end of the first attempt
	dropped  bool  // no longer needed; a late answer is ignored
}

// readBatch is the maximum number of occurrences per read. Pending occurrences keep the log's bytes in memory.
const readBatch = 16

// readLog reads a batch from the log and parks the reader at the end of the log.
func (e *Engine) readLog(h *Handle) {
	e.mu.Lock()
	if parked, passed := h.intake.recordUnpark(); parked {
		turn := h.intake.turn
		e.mu.Unlock()
		p := h.reader.Unpark()
		e.mu.Lock()
		if passed && h.intake.turn == turn {
			h.marks.Pass(p)
		}
	}
	turn := h.intake.beginRead()
	after := h.marks.Upto()
	limit := min(readBatch, e.o.MaxUnsettled-len(h.window))
	e.mu.Unlock()

	f, err := h.reader.Read(e.base, after, limit)
	tell := err == nil && f.Gap && h.hasGaps()
	if tell {
		e.notifyGap(h)
	}
	e.mu.Lock()
	defer e.unlock()
	switch {
	case h.hasEnded(), h.intake.isOutdated(turn):
		return
	case err != nil:
		if first := h.intake.recordFailure(e.clock()); first && e.base.Err() == nil {
			e.queueLog(slog.LevelError, "reading the log for a webhook subscription", h, slog.Any("error", err))
		}
		return
	}
	more := f.More || f.Gap
	h.intake.recordSuccess(more)
	h.addFound(f)
	if f.Gap {
		e.queueLog(slog.LevelWarn, "webhook subscription fell behind the log's retention", h)
	}
	if tell {
		h.addGap()
	}
	if more {
		return
	}
	after = h.marks.Upto()
	// The new occurrences can be sent while the reader parks.
	e.scheduleNow(h)
	e.unlock()
	ok := h.reader.Park(after)
	e.mu.Lock()
	h.intake.recordPark(turn, ok)
}

// addFound adds the result of a read to the window.
func (h *Handle) addFound(f Found) {
	for i := range f.Items {
		it := &f.Items[i]
		if h.marks.Open(it.Position) {
			u := &pendingEvent{position: it.Position, item: it}
			if wait := h.e.o.Schedule[0]; wait > 0 {
				u.due = h.e.clock().plus(h.e.o.spread(wait))
			}
			h.window = append(h.window, u)
		}
	}
	if f.Gap {
		for _, u := range slices.Clone(h.window) {
			if u.position <= f.Upto && !u.busy && u.item == nil {
				h.settleEvent(u)
			}
		}
	}
	h.marks.Pass(f.Upto)
	h.e.markDirty(h)
}

// settleEvent records that u does not need further attempts, and removes it from the window.
func (h *Handle) settleEvent(u *pendingEvent) {
	if u.dropped {
		return
	}
	u.dropped, u.item = true, nil
	h.marks.Settle(u.position)
	if i := slices.Index(h.window, u); i >= 0 {
		h.window = slices.Delete(h.window, i, i+1)
	}
	if len(h.window) == 0 {
		h.window = nil
	}
	h.e.scheduleWrite(h)
}

// errUnsendable is returned for an occurrence that can never be sent.
var errUnsendable = errors.New("delivery: the occurrence cannot be sent")

// sendEvent makes one attempt at an occurrence.
func (e *Engine) sendEvent(h *Handle, u *pendingEvent) {
	e.mu.Lock()
	item, dropped := u.item, u.dropped
	u.busy = !dropped
	e.mu.Unlock()
	if dropped || item == nil && !e.rereadItem(h, u, &item) {
		return
	}

	e.mu.Lock()
	if !u.dropped && e.o.isPastWindow(&u.retryState, e.clock()) {
		e.abandonEvent(h, u, item.EventID)
	}
	if u.dropped {
		u.busy = false
		e.unlock()
		return
	}
	at := h.marks.At(u.position)
	e.mu.Unlock()
	var body []byte
	err := errUnsendable
	if item.Body != nil {
		body, err = item.Body(h.reader.Cursor(at))
	}
	var r attemptResult
	if err == nil {
		r, err = e.send(h, &u.retryState, webhook.Message{ID: item.EventID, Subscription: h.id, Body: body}, "")
	}
	if err != nil {
		e.writeLog(slog.LevelError, "an occurrence cannot be delivered", h, slog.String("eventId", item.EventID), slog.Any("error", err))
		e.settleLost(h, u)
		return
	}
	e.mu.Lock()
	_, removed := e.applyResult(h, u, item.EventID, r)
	e.unlock()
	if removed {
		e.handleEnd(h, Failed)
	}
}

// rereadItem reads the occurrence again for a retry. It returns false if no attempt can be made now.
func (e *Engine) rereadItem(h *Handle, u *pendingEvent, item **Item) bool {
	f, err := h.reader.Read(e.base, u.position-1, 1)
	if err == nil && len(f.Items) > 0 && f.Items[0].Position == u.position {
		*item = &f.Items[0]
		return true
	}
	if err == nil && f.Gap {
		e.settleLost(h, u)
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	u.busy = false
	if err != nil {
		u.due = e.clock().plus(retryRead)
		return false
	}
	h.settleEvent(u) // it no longer matches the subscription
	return false
}

// settleLost settles an occurrence that can never be sent and signals a gap (OCC-4).
func (e *Engine) settleLost(h *Handle, u *pendingEvent) {
	tell := h.hasGaps()
	if tell {
		e.notifyGap(h)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	u.busy = false
	if u.dropped {
		return
	}
	h.settleEvent(u)
	if tell {
		h.addGap()
	}
	e.countOutcome(h, outcomeLost, "")
}

// abandonEvent settles an occurrence after its last attempt. It logs the occurrence's id, so an operator can find the
// occurrence.
func (e *Engine) abandonEvent(h *Handle, u *pendingEvent, eventID string) {
	h.settleEvent(u)
	f := h.ensureFailures()
	f.abandoned.Add(e.now())
	e.countOutcome(h, outcomeAbandoned, f.category)
	e.queueLog(slog.LevelWarn, "webhook delivery abandoned", h,
		append([]slog.Attr{slog.String("eventId", eventID), slog.Int("attempts", u.attempts)}, h.lastErrorAttrs()...)...)
}

// sendControl makes one attempt at a control envelope.
func (e *Engine) sendControl(h *Handle, c *controlEnvelope) {
	body, err := e.controlBody(h, c)
	var r attemptResult
	if err == nil {
		r, err = e.send(h, &c.retryState, webhook.Message{ID: c.id, Subscription: h.id, Body: body}, c.kind)
	}
	e.mu.Lock()
	defer e.unlock()
	c.busy = false
	switch {
	case err != nil:
		e.queueLog(slog.LevelError, "a control envelope cannot be delivered", h, slog.String("type", c.kind), slog.Any("error", err))
		h.removeControl(c)
		h.untold = false
	case r.aborted:
	default:
		h.untold = false
		if c.attempts == 0 && c.sent != nil {
			close(c.sent)
		}
		c.recordAttempt(r.began, r.at)
		if r.category == "" || r.final || !e.o.scheduleRetry(&c.retryState, e.clock(), r.wish) {
			h.removeControl(c)
		}
	}
	h.e.markDirty(h)
}

// An attemptResult describes the outcome of one attempt.
type attemptResult struct {
	at       time.Time     // in the signature
	began    moment        // of the signature
	took     time.Duration // until the answer or the failure
	status   int           // HTTP status of the endpoint, or of the proxy if that is the category; 0 without an answer
	category wire.Category // "": acknowledged
	final    bool          // the occurrence must not be retried
	wish     moment        // time of the next attempt that the endpoint requested
	pause    bool          // the wish applies to all requests to the endpoint
	aborted  bool          // by the engine: says nothing about the endpoint
	by       string        // operator who requested it; "" for the schedule
}

// send signs and sends one message. An error means that the message can never be sent.
func (e *Engine) send(h *Handle, t *retryState, m webhook.Message, kind string) (r attemptResult, err error) {
	// The context is not derived from e.base, to avoid contention on the lock of e.base. The method cancelAttempts
	// cancels the context.
	ctx, cancel := context.WithTimeout(context.Background(), e.o.Timeout)
	defer cancel()
	e.mu.Lock()
	may := true
	if ask := h.shard.o.May; ask != nil {
		e.mu.Unlock()
		may = ask()
		e.mu.Lock()
	}
	now := e.now()
	if !may {
		h.held = max(h.held, e.clock().plus(recheckPause))
	}
	if !may || e.base.Err() != nil || h.shard.closed || h.hasEnded() && kind != wire.EnvelopeTerminated || (h.phase == stopping || h.isExpired(now)) && !h.hasEnded() {
		e.mu.Unlock()
		return attemptResult{aborted: true}, nil
	}
	ring, number, failed := h.ring, t.attempts+1, t.failed
	t.cancel = cancel
	e.mu.Unlock()

	ctx, end := e.beginAttempt(ctx, h, kind, number)
	defer func() { end(r) }()
	began, at := e.clock(), e.now()
	header := make(http.Header)
	if err := (webhook.Signer{Ring: ring, Identity: e.o.Identity}).Sign(header, m, at); err != nil {
		return r, err // nothing was sent
	}
	if e.o.RetryHeaders && failed != "" {
		header.Set(wire.HeaderRetryNumber, strconv.Itoa(number-1))
		header.Set(wire.HeaderRetryReason, string(failed.ForSubscriber()))
	}
	r.at, r.began = at, began
	answer, sendErr := e.o.Sender.Send(ctx, netguard.Request{Method: http.MethodPost, URL: h.url, Header: header, Body: m.Body})
	r.took = time.Duration(e.clock() - began)

	e.mu.Lock()
	t.cancel = nil
	switch {
	case sendErr != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		r.aborted = true
	case sendErr != nil:
		r.category = netguard.CategoryOf(sendErr)
		if r.category == "" {
			r.category = wire.Timeout
		}
		if r.category == wire.Proxy {
			r.status = netguard.ProxyStatus(sendErr)
		}
		h.recordResponse(quickLimit)
	default:
		r.category, r.status = answer.Category(), answer.Status
		r.final = answer.Status == http.StatusGone || answer.Status == http.StatusRequestEntityTooLarge
		r.pause = answer.Status == http.StatusTooManyRequests
		if pause, ok := wire.RetryAfter(answer.Header.Get("Retry-After"), e.now()); ok && r.category != "" {
			r.wish = e.clock().plus(min(pause, maxRetryAfter))
		}
		h.recordResponse(r.took)
	}
	t.failed = r.category
	e.mu.Unlock()
	if r.category != "" {
		attrs := []slog.Attr{slog.Int("attempt", number), slog.String("type", kind), slog.String("category", string(r.category)), slog.Int("status", r.status)}
		if r.category == wire.Proxy {
			attrs = append(attrs, slog.Any("error", sendErr))
		}
		e.writeLog(slog.LevelDebug, "webhook attempt failed", h, attrs...)
	}
	return r, nil
}

// applyResult applies the result of an attempt at an occurrence and returns the attempt's record. The result removed
// reports whether repeated failures caused the removal of the subscription. A response that arrives after the
// occurrence was dropped has no effect, except that an operator's successful attempt ends a series of failures. While
// deliveries are stopped, the result has no effect unless an operator's attempt was successful, which settles the
// occurrence.
func (e *Engine) applyResult(h *Handle, u *pendingEvent, eventID string, r attemptResult) (made operator.Attempt, removed bool) {
	u.busy = false
	if r.aborted {
		return made, false
	}
	defer func() { made = h.recordAttempt(u, eventID, r) }()
	u.recordAttempt(r.began, r.at)
	now := e.now()
	if h.hasEnded() || u.dropped {
		if r.by != "" && r.category == "" && !h.hasEnded() && !h.isStopped() {
			h.recordSuccess(now)
		}
		return made, false
	}
	if r.by != "" && h.isStopped() {
		if r.category == "" {
			h.settleEvent(u)
			e.countOutcome(h, outcomeAcknowledged, "")
		}
		return made, false
	}
	u.item = nil
	switch {
	case r.category == "":
		h.recordSuccess(now)
		h.settleEvent(u)
		e.countOutcome(h, outcomeAcknowledged, "")
	default:
		h.recordFailure(now, r)
		if r.final || !e.o.scheduleRetry(&u.retryState, e.clock(), r.wish) {
			e.abandonEvent(h, u, eventID)
		}
		h.countAttempt(now, true)
		if h.hasFailedTooLong(now) {
			h.terminateFailing()
			return made, true
		}
	}
	return made, false
}

func (h *Handle) recordSuccess(now time.Time) {
	h.width = min(h.width+1, h.e.o.PerSubscription)
	if f := h.failures; f != nil {
		f.failedSince, f.failing = 0, 0
		if f.suspended { // it was in flight when the subscription was suspended
			f.failing = instantOf(now)
		}
	}
	h.lastDelivery = instantOf(now)
	h.countAttempt(now, false)
	h.e.scheduleWrite(h)
}

func (h *Handle) recordFailure(now time.Time, r attemptResult) {
	if h.width = 1; !h.slow {
		h.width = max(1, h.e.o.PerSubscription/4)
	}
	f := h.ensureFailures()
	if f.failedSince == 0 || f.category != string(r.category) {
		h.e.scheduleWrite(h)
	}
	f.failedSince = cmp.Or(f.failedSince, instantOf(now))
	f.failing = cmp.Or(f.failing, instantOf(now))
	h.recordLastError(r)
	if r.pause {
		h.notUntil = max(h.notUntil, min(r.wish, h.e.clock().plus(h.e.o.RetryWindow)))
	}
}

// recordLastError records that a failed attempt is the last one.
func (h *Handle) recordLastError(r attemptResult) {
	f := h.ensureFailures()
	f.category, f.status, f.at = string(r.category), r.status, instantOf(r.at)
}
