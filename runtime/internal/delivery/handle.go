package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A Handle is one live subscription in an [Engine].
type Handle struct {
	e          *Engine
	shard      *Shard // guarded by e.mu
	guest      *guest
	log        *Log
	reader     Reader
	id         string
	event      string
	url        string
	generation uint64
	epoch      uint64
	dialect    wire.Dialect

	// The fields below are guarded by e.mu.
	ring     webhook.Ring
	expires  instant // 0: never
	marks    Watermark
	window   []*unsettled // parallel to the open positions of marks
	controls []*control
	stats    *attempts
	made     *[]operator.Attempt // attempts since the last write; nil for none
	asked    *Replay             // replay in progress; nil for none
	limiter  *rate.Limiter
	health   health
	failing  instant // first failure of the current run since this engine started
	notUntil moment  // earliest attempt, by a limit or the endpoint's wish
	pausedAt instant // when an operator paused the subscription; 0 if not paused
	held     moment  // earliest attempt, because the subscriber may not know the subscription before
	wakeAt   moment  // time of the entry in e.due
	slot     int     // in e.due, or -1
	inFlight int
	width    int // current limit of attempts in flight
	intake   intake
	phase    phase

	class   class
	queued  bool // in guest.ready
	dirty   bool // in shard.dirty
	open    bool // stored as open; never without a log
	touched bool // the record must be rewritten even if nothing is unsettled
	granted bool // the rate limits granted the next attempt
	gapped  bool // has a gap that no subscribe response reported
	untold  bool // has an earlier gap that no attempt has signaled: stored progress stays before it
	overdue bool // its expiry was reported
	// detached is true if the record continues without the handle and must be stored as open.
	detached bool
}

// An Entry describes a subscription for [Engine.Add].
type Entry struct {
	// Subscription is the record as stored; its Progress counts in the Reader's positions.
	Subscription store.Subscription
	Reader       Reader
	// Begin, if non-nil, is called with the handle before any method of Reader, so that the reader knows which
	// handle to wake.
	Begin func(*Handle)
	// Log is the log that Progress refers to, if its positions remain valid after a restart. It is nil for others,
	// such as feeds of a check, whose progress is Progress.Upstream. Delivery begins at Progress.Base if
	// Progress.Open is set, otherwise at the larger of Progress.Base and Log's mark.
	Log *Log
	// Moved reports whether the stored progress belongs to another epoch than Progress. The engine replaces it soon.
	// With a Log, the stored record is open.
	Moved bool
	// Gap reports whether the subscription has a gap that was not signaled. The engine sends an envelope with the
	// first events. The record's Truncated is set. Progress is not stored until an attempt has signaled the gap, so
	// that the next owner finds it.
	Gap bool
	// Replay is the replay that an earlier process started, or nil.
	Replay *Replay
	// Shard is the shard of the subscription and of Log.
	Shard *Shard
	// Hold is the earliest time of an attempt, in addition to the record's NotBefore; see [Handle.HoldUntil].
	Hold time.Time
	// Answered is the time that the endpoint just took to answer its challenge; 0 without a challenge.
	Answered time.Duration
}

// class returns the class of the first turn, based on the last stored attempt or on the challenge.
func (n *Entry) class() class {
	switch wire.Category(n.Subscription.Health.LastError) {
	case wire.Timeout, wire.ConnectionRefused, wire.TLSError:
		if !n.Subscription.Health.FailedSince.IsZero() {
			return slow
		}
	}
	if n.Answered > 0 {
		return classOf(n.Answered)
	}
	return unknown
}

// maxHold bounds the delay before the first attempt, whatever the record says, because clocks differ.
const maxHold = 30 * time.Second

// Add starts to deliver to a subscription from its progress. It returns [ErrClosed], an error for an invalid URL or
// secret, or an error of the store; it does not call Reader.Close after an error.
func (e *Engine) Add(ctx context.Context, n Entry) (*Handle, error) {
	s := n.Subscription
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("delivery: subscription %s has no usable URL", s.ID)
	}
	if n.Log != nil && !s.Progress.Open {
		s.Progress.Base = max(s.Progress.Base, n.Log.from)
	}
	keys, err := ring.Of(s.Secrets)
	if err != nil {
		return nil, fmt.Errorf("delivery: subscription %s: %w", s.ID, err)
	}
	h := &Handle{
		e: e, shard: n.Shard, log: n.Log, reader: n.Reader, id: s.ID, event: s.Event, url: s.URL, generation: s.Generation, epoch: s.Progress.Epoch,
		dialect: wire.Dialect(s.Codes), ring: keys, expires: instantOf(s.ExpiresAt), marks: NewWatermark(s.Progress), health: healthOf(s.Health),
		open: n.Log != nil && s.Progress.Open, touched: n.Moved, asked: n.Replay,
		gapped: s.Truncated, pausedAt: instantOf(s.PausedAt), slot: -1, width: startWidth(e.o.PerSubscription), intake: intake{woken: true}, class: n.class(),
	}
	now := e.now()
	if h.health.suspended {
		h.failing = instantOf(now)
	}
	if n.Begin != nil {
		n.Begin(h)
	}
	gap := n.Gap && h.hasGaps()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || h.shard.closing {
		h.phase = ended
		return nil, ErrClosed
	}
	h.hold(now, s.NotBefore, n.Hold)
	h.guest = e.guestOf(strings.ToLower(u.Host), s.Principal)
	h.shard.handles[h] = struct{}{}
	if n.Log != nil && n.Log.ready {
		h.touched = true // the record may be older than the last update of an earlier handle
	}
	if gap {
		h.untold = true
		h.addGap()
	}
	e.changed(h)
	e.schedule(h, now)
	return h, nil
}

// ID returns the subscription's id.
func (h *Handle) ID() string { return h.id }

// URL returns the callback URL.
func (h *Handle) URL() string { return h.url }

// Generation returns the generation of the subscription's record.
func (h *Handle) Generation() uint64 { return h.generation }

// Event returns the name of the subscription's event type.
func (h *Handle) Event() string { return h.event }

// Wake signals that the log may hold entries for the subscription. It is a hint: it may be called at any time,
// without need, and under the lock of an append. It never blocks.
func (h *Handle) Wake() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.gone() || !h.intake.wake() {
		return
	}
	h.e.changed(h)
	h.e.scheduleNow(h)
}

// HoldUntil sets the earliest time of an attempt, which may be before or after the current one. Attempts in flight
// continue.
func (h *Handle) HoldUntil(t time.Time) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	now := h.e.now()
	h.hold(now, t)
	h.e.schedule(h, now)
}

// hold sets h.held to the latest of the times.
func (h *Handle) hold(now time.Time, times ...time.Time) {
	h.held = 0
	for _, t := range times {
		if t.After(now) {
			h.held = max(h.held, h.e.clock().plus(min(t.Sub(now), maxHold)))
		}
	}
}

// Refresh applies the secrets, code family and expiry of the record, reactivates a suspended subscription and
// returns the status before the refresh. No attempt starts before the record's NotBefore and hold. Refresh returns
// false and changes nothing if the subscription has ended or expired; the caller must then subscribe from scratch
// (SUB-5, HOOK-8).
func (h *Handle) Refresh(s store.Subscription, hold time.Time) (found Status, ok bool) {
	keys, err := ring.Of(s.Secrets)
	e, now := h.e, h.e.now()
	e.mu.Lock()
	defer e.unlock()
	found = h.status(now)
	if err != nil || h.phase > delivering || e.closing || h.expired(now) || s.Generation != h.generation {
		return found, false
	}
	h.ring, h.dialect, h.expires = keys, wire.Dialect(s.Codes), instantOf(s.ExpiresAt)
	h.resume(now)
	h.hold(now, s.NotBefore, hold)
	h.touched = true
	e.changed(h)
	e.schedule(h, now)
	return found, true
}

// Resume reactivates a suspended subscription as a refresh does (SRV-8).
func (h *Handle) Resume() {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.gone() {
		return
	}
	now := h.e.now()
	h.resume(now)
	h.e.schedule(h, now)
}

// Watermark returns the safe cursor (HOOK-6), or nil for a type without replay.
func (h *Handle) Watermark() *string { return h.reader.Cursor(h.Base()) }

// Base returns the position up to which everything is settled.
func (h *Handle) Base() store.Position {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.passParked()
	return h.marks.Base()
}

// Concerned reports whether the occurrence at p matches the subscription, and whether it is settled.
func (h *Handle) Concerned(ctx context.Context, p store.Position) (concerned, settled bool, err error) {
	f, err := h.reader.Read(ctx, p-1, 1)
	if err != nil {
		return false, false, err
	}
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.passParked()
	return len(f.Items) > 0 && f.Items[0].Position == p, h.marks.Settled(p), nil
}

func (h *Handle) progress() store.Progress {
	return store.Progress{Epoch: h.epoch, Base: h.marks.Base(), Settled: h.marks.Spans(), Open: h.open}
}

// withUpstream adds the cursor to the progress of a subscription whose positions end with the process.
func (h *Handle) withUpstream(p store.Progress) store.Progress {
	if h.log == nil {
		if c := h.reader.Cursor(p.Base); c != nil {
			p.Upstream = *c
		}
	}
	return p
}

// passParked moves the watermark of a parked subscription to its reader's position. It releases e.mu during the
// call.
func (h *Handle) passParked() {
	turn := h.intake.turn
	if !h.intake.parked || h.intake.reading || h.gone() || h.intake.parkedIn != turn {
		return
	}
	h.e.mu.Unlock()
	p := h.reader.Passed()
	h.e.mu.Lock()
	// Later reads only find entries above p, even if another turn started to read meanwhile.
	if h.intake.turn == turn {
		h.marks.Pass(p)
	}
}

// hasGaps reports whether gaps can be signaled. A type without replay has no cursor to resume from, and a receiver
// cannot distinguish a loss from silence (CUR-7). The caller must not hold e.mu.
func (h *Handle) hasGaps() bool { return h.Watermark() != nil }

// Gap sends a gap envelope, as if occurrences had been lost (SRV-8). It does nothing for a type without replay.
func (h *Handle) Gap() {
	if !h.hasGaps() {
		return
	}
	h.e.gapped(h)
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if !h.gone() {
		h.addGap()
		h.e.scheduleNow(h)
	}
}

// Truncated reports whether there was a gap since the last call with take set (D7).
func (h *Handle) Truncated(take bool) bool {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	gapped := h.gapped
	if take {
		h.gapped = false
	}
	return gapped
}

// Extend sets the expiry, even after the subscription has expired; zero means none. It is for records that another
// process refreshed.
func (h *Handle) Extend(until time.Time) {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.gone() {
		return
	}
	h.expires, h.overdue = instantOf(until), false
	h.e.scheduleNow(h)
}

// Stop prevents further attempts. The subscription is about to end, by Remove or Terminate.
func (h *Handle) Stop() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.phase = max(h.phase, stopping)
}

// Remove ends the subscription without an envelope. Attempts in flight are abandoned, their answers are ignored,
// and nothing is retried. It is idempotent.
func (h *Handle) Remove() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.end()
	h.release()
}

// Detach is [Handle.Remove] for a subscription whose record remains and is added again later. The record is stored
// as open before the log's mark moves, so that no occurrence is skipped meanwhile.
func (h *Handle) Detach() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.passParked()
	if !h.gone() && !h.untold && h.log != nil {
		h.detached = true
		h.e.changed(h)
	}
	h.end()
	h.release()
}

// Terminate ends the subscription and sends its terminated envelope (HOOK-7).
func (h *Handle) Terminate(err wire.ErrorObject) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.gone() {
		return
	}
	h.terminate(err)
}

func (h *Handle) terminate(err wire.ErrorObject) {
	h.end()
	h.controls = append(h.controls, newTermination(err))
	h.e.scheduleNow(h)
}

// end stops deliveries and envelopes. The caller calls release unless a terminated envelope follows.
func (h *Handle) end() {
	h.cancel()
	h.phase = max(h.phase, ended)
	h.controls, h.stats, h.made, h.limiter = nil, nil, nil, nil
	h.forget()
	h.e.due.remove(h)
}

// gone reports whether the subscription has ended; only a terminated envelope may still be sent.
func (h *Handle) gone() bool { return h.phase >= ended }

// cancel cancels the attempts in flight.
func (h *Handle) cancel() {
	for _, u := range h.window {
		if u.cancel != nil {
			u.cancel()
		}
	}
	for _, c := range h.controls {
		if c.cancel != nil {
			c.cancel()
		}
	}
}

// forget drops all unsettled occurrences, regardless of attempts in flight.
func (h *Handle) forget() {
	for _, u := range h.window {
		u.item = nil
		u.dropped = true
	}
	h.window = nil
}

// release frees the resources of an ended handle once nothing of it is in flight.
func (h *Handle) release() {
	if !h.gone() || h.inFlight > 0 || h.intake.reading {
		return
	}
	if h.phase < closed {
		h.phase = closed
		reader := h.reader
		go reader.Close()
	}
	if len(h.controls) > 0 || h.queued {
		return
	}
	if _, ok := h.shard.handles[h]; ok {
		delete(h.shard.handles, h)
		h.e.due.remove(h)
		h.e.leave(h.guest)
	}
}

func (h *Handle) expired(now time.Time) bool {
	return h.expires != 0 && instantOf(now) >= h.expires
}

// logAttrs returns the attributes of every log line about a subscription.
func (h *Handle) logAttrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("subscription", h.id), slog.String("event", h.event)}, more...)
}
