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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
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

	// The engine's mutex e.mu guards the fields below.
	ring         webhook.Ring
	refreshed    instant // RefreshedAt of the record
	expires      instant // 0: never
	marks        Watermark
	window       []*pendingEvent // parallel to the open positions of marks
	controls     []*controlEnvelope
	stats        *attemptCounts
	made         *[]operator.Attempt // attempts since the last write; nil for none
	asked        *Replay             // replay in progress; nil for none
	before       *store.Progress     // progress to store until the replay has been stored; nil for none
	limiter      *rate.Limiter
	lastDelivery instant   // last success of a delivery
	failures     *failures // nil if no attempt has failed
	notUntil     moment    // earliest attempt, by a limit or the endpoint's wish
	pausedAt     instant   // when an operator paused the subscription; 0 if not paused
	held         moment    // earliest attempt, because the subscriber may not know the subscription before
	wakeAt       moment    // time of the entry in e.due
	slot         int32     // in e.due, or -1
	inFlight     int32
	width        int    // current limit of attempts in flight
	seen         uint32 // guest.breaks at the last response; 0 without one
	intake       intake
	phase        phase

	slow    bool // the last attempt or the challenge was not answered in time
	queued  bool // in guest.ready
	dirty   bool // in shard.dirty
	open    bool // stored as open; never without a log
	touched bool // the record must be rewritten even if nothing is unsettled
	granted bool // the rate limits granted the next attempt
	gapped  bool // has a gap that no subscribe response reported
	untold  bool // has an earlier gap that no attempt has signaled: stored progress stays before it
	overdue bool // its expiry was reported
}

// An Entry describes a subscription for [Engine.Add].
type Entry struct {
	// Subscription is the stored record. Its Progress uses the Reader's positions.
	Subscription store.Subscription
	Reader       Reader
	// Begin, if non-nil, is called with the handle before all methods of Reader, so the reader can wake the handle.
	Begin func(*Handle)
	// Log is the log that Progress refers to, if the log's positions remain valid after a restart. It is nil otherwise,
	// for example for feeds of a check, which store their progress in Progress.Upstream. Delivery begins at
	// Progress.Base if Progress.Open is set, otherwise at the larger of Progress.Base and Log's mark.
	Log *Log
	// Moved reports whether the stored progress has a different epoch than Progress. The engine soon replaces it. If
	// Moved and Log are set, the stored record is open.
	Moved bool
	// Gap reports whether the subscription has a gap that has not been signaled. The engine sends an envelope with the
	// first events. The record's Truncated is set. Progress is stored only after an attempt to signal the gap, so a new
	// owner also finds the gap.
	Gap bool
	// Replay is the unfinished replay of an earlier process, or nil.
	Replay *Replay
	// Shard is the shard of the subscription and of Log.
	Shard *Shard
	// Hold is the earliest time of the first attempt, unless the record's NotBefore is later. See [Handle.HoldUntil].
	Hold time.Time
	// Answered is the endpoint's response time to a preceding challenge, or 0 without a challenge.
	Answered time.Duration
}

// maxHold limits the delay before the first attempt, because the record's NotBefore might have been set by a different
// clock.
const maxHold = 30 * time.Second

// Add starts deliveries to a subscription at its stored progress. It returns [ErrClosed], or an error for an invalid
// URL or secret. After an error, it does not call Reader.Close.
func (e *Engine) Add(ctx context.Context, n Entry) (*Handle, error) {
	s := n.Subscription
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("delivery: subscription %s has no usable URL", s.ID)
	}
	if n.Log != nil && !s.Progress.Open {
		s.Progress.Base = max(s.Progress.Base, n.Log.openedMark)
	}
	keys, err := ring.Of(s.Secrets)
	if err != nil {
		return nil, fmt.Errorf("delivery: subscription %s: %w", s.ID, err)
	}
	h := &Handle{
		e: e, shard: n.Shard, log: n.Log, reader: n.Reader, id: s.ID, event: s.Event, url: s.URL, generation: s.Generation, epoch: s.Progress.Epoch,
		dialect: wire.Dialect(s.Codes), ring: keys, refreshed: instantOf(s.RefreshedAt), expires: instantOf(s.ExpiresAt), marks: NewWatermark(s.Progress),
		open: n.Log != nil && s.Progress.Open, touched: n.Moved, asked: n.Replay,
		gapped: s.Truncated, pausedAt: instantOf(s.PausedAt), slot: -1, width: startWidth(e.o.PerSubscription), intake: intake{woken: true},
	}
	now := e.now()
	h.lastDelivery, h.failures = instantOf(s.Health.LastDeliveryAt), failuresOf(&s, now)
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
	h.setHold(now, s.NotBefore, n.Hold)
	h.guest = e.joinGuest(strings.ToLower(u.Host), s.Principal)
	h.restoreClass(s.Health, n.Answered)
	h.shard.handles[h] = struct{}{}
	if n.Log != nil && n.Log.ready {
		h.touched = true // the record may be older than the last update of an earlier handle
	}
	if gap {
		h.untold = true
		h.addGap()
	}
	e.markDirty(h)
	e.schedule(h, now)
	return h, nil
}

// ID returns the subscription's id.
func (h *Handle) ID() string { return h.id }

// Principal returns the owner of the subscription.
func (h *Handle) Principal() string { return h.guest.tenant.principal }

// URL returns the callback URL.
func (h *Handle) URL() string { return h.url }

// Generation returns the generation of the subscription's record.
func (h *Handle) Generation() uint64 { return h.generation }

// Event returns the name of the subscription's event type.
func (h *Handle) Event() string { return h.event }

// Wake signals that the log might contain new entries for the subscription. It can be called at all times, even without
// new entries or under the append lock. It never blocks.
func (h *Handle) Wake() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.hasEnded() || !h.intake.requestRead() {
		return
	}
	h.e.markDirty(h)
	h.e.scheduleNow(h)
}

// HoldUntil sets the earliest time of the next attempt, which can be earlier or later than the previous setting.
// Attempts in flight continue.
func (h *Handle) HoldUntil(t time.Time) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	now := h.e.now()
	h.setHold(now, t)
	h.e.schedule(h, now)
}

// setHold sets h.held to the latest of the times, at most maxHold from now.
func (h *Handle) setHold(now time.Time, times ...time.Time) {
	h.held = 0
	for _, t := range times {
		if t.After(now) {
			h.held = max(h.held, h.e.clock().plus(min(t.Sub(now), maxHold)))
		}
	}
}

// Refresh applies the secrets, code family and expiry of the record and reactivates a suspended subscription. It
// returns the status before the refresh. Attempts start no earlier than the record's NotBefore. If the subscription has
// ended or expired, Refresh has no effect and returns false. The caller must then create a new subscription (SUB-5,
// HOOK-8).
func (h *Handle) Refresh(s store.Subscription) (found Status, ok bool) {
	keys, err := ring.Of(s.Secrets)
	e, now := h.e, h.e.now()
	e.mu.Lock()
	defer e.unlock()
	found = h.status(now)
	if err != nil || h.phase > delivering || e.closing || h.isExpired(now) || s.Generation != h.generation {
		return found, false
	}
	h.ring, h.dialect, h.refreshed, h.expires = keys, wire.Dialect(s.Codes), instantOf(s.RefreshedAt), instantOf(s.ExpiresAt)
	h.resume(now)
	h.setHold(now, s.NotBefore)
	h.touched = true
	e.markDirty(h)
	e.schedule(h, now)
	return found, true
}

// Resume reactivates a suspended subscription, like Refresh (SRV-8).
func (h *Handle) Resume() {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.hasEnded() {
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
	h.advanceParked()
	return h.marks.Base()
}

// progress returns the progress to store.
func (h *Handle) progress() store.Progress {
	if h.before != nil {
		return *h.before
	}
	return store.Progress{Epoch: h.epoch, Base: h.marks.Base(), Settled: h.marks.Spans(), Open: h.open}
}

// withUpstream adds the cursor to the progress of a subscription whose positions are valid only in this process.
func (h *Handle) withUpstream(p store.Progress) store.Progress {
	if h.log == nil {
		if c := h.reader.Cursor(p.Base); c != nil {
			p.Upstream = *c
		}
	}
	return p
}

// advanceParked moves the watermark of a parked subscription to its reader's position. It releases e.mu while it calls
// the reader.
func (h *Handle) advanceParked() {
	turn := h.intake.turn
	if !h.intake.parked || h.intake.reading || h.hasEnded() || h.intake.parkedIn != turn {
		return
	}
	h.e.mu.Unlock()
	p := h.reader.Passed()
	h.e.mu.Lock()
	// Later reads only find entries after p, even if another turn has already started to read.
	if h.intake.turn == turn {
		h.marks.Pass(p)
	}
}

// hasGaps reports whether gaps can be signaled to the subscriber. A type without replay has no cursor to resume from,
// and a receiver cannot distinguish a loss from silence (CUR-7). The caller must not hold e.mu.
func (h *Handle) hasGaps() bool { return h.Watermark() != nil }

// Gap queues a gap envelope, as if occurrences had been lost (SRV-8). It does nothing for a type without replay. The
// returned channel is closed after the first attempt. It is nil if deliveries are stopped. Gap returns [ErrClosed] if
// the subscription or its shard has ended.
func (h *Handle) Gap() (sent <-chan struct{}, err error) {
	if !h.hasGaps() {
		return nil, nil
	}
	h.e.notifyGap(h)
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.hasEnded() {
		return nil, ErrClosed
	}
	c := h.addGap()
	h.e.scheduleNow(h)
	if h.isStopped() {
		return nil, nil
	}
	return c.sent, nil
}

// Truncated reports whether a gap has occurred since the last call with take set (D7).
func (h *Handle) Truncated(take bool) bool {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	gapped := h.gapped
	if take {
		h.gapped = false
	}
	return gapped
}

// Extend sets the expiry of the subscription, even if it has already expired. A zero time means no expiry. The caller
// uses it if another process has refreshed the record.
func (h *Handle) Extend(until time.Time) {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.hasEnded() {
		return
	}
	h.expires, h.overdue = instantOf(until), false
	h.e.scheduleNow(h)
}

// Stop prevents further attempts. The caller must then call Remove or Terminate.
func (h *Handle) Stop() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.phase = max(h.phase, stopping)
}

// Remove ends the subscription without an envelope. It cancels the attempts in flight and ignores their results.
// Nothing is retried. It is idempotent.
func (h *Handle) Remove() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.end()
	h.release()
}

// Terminate ends the subscription and sends its terminated envelope (HOOK-7).
func (h *Handle) Terminate(err wire.ErrorObject) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.hasEnded() {
		return
	}
	h.terminate(err)
}

func (h *Handle) terminate(err wire.ErrorObject) {
	h.end()
	h.controls = append(h.controls, newTermination(err))
	h.e.scheduleNow(h)
}

// end stops deliveries and envelopes. The caller must call release unless it sends a terminated envelope.
func (h *Handle) end() {
	h.cancel()
	h.phase = max(h.phase, ended)
	h.controls, h.stats, h.made, h.limiter = nil, nil, nil, nil
	h.dropWindow()
	h.e.due.remove(h)
}

// hasEnded reports whether the subscription has ended. After that, only a terminated envelope can still be sent.
func (h *Handle) hasEnded() bool { return h.phase >= ended }

// cancel cancels the subscription's attempts in flight.
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

// dropWindow drops all unsettled occurrences, including occurrences with attempts in flight.
func (h *Handle) dropWindow() {
	for _, u := range h.window {
		u.item = nil
		u.dropped = true
	}
	h.window = nil
}

// release frees the resources of an ended handle if it has no attempts or reads in flight.
func (h *Handle) release() {
	if !h.hasEnded() || h.inFlight > 0 || h.intake.reading {
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
		h.e.leaveGuest(h.guest)
	}
}

func (h *Handle) isExpired(now time.Time) bool {
	return h.expires != 0 && instantOf(now) >= h.expires
}

// lastErrorAttrs returns the attributes of a log message about the last failed attempt. The status is 0 if the endpoint
// did not respond.
func (h *Handle) lastErrorAttrs() []slog.Attr {
	f := h.pastFailures()
	return []slog.Attr{slog.String("category", f.category), slog.Int("status", f.status)}
}

// logAttrs returns the attributes of a log message about the subscription, followed by the additional attributes.
func (h *Handle) logAttrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("subscription", h.id), slog.String("event", h.event)}, more...)
}
