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
	shard      *Shard // under e.mu
	guest      *guest
	log        *Log
	reader     Reader
	id         string
	event      string
	url        string
	generation uint64
	epoch      uint64
	dialect    wire.Dialect

	// Below: under e.mu.
	ring     webhook.Ring
	expires  instant // 0: never
	marks    Watermark
	window   []*unsettled // parallel to the open positions of marks
	controls []*control
	stats    *attempts
	made     *[]operator.Attempt // since they were last stored; nil for none
	asked    *replay             // that is under way; nil for none
	limiter  *rate.Limiter
	health   health
	failing  instant // first failure of the present run since this engine started
	notUntil moment  // no attempt before: a limit, or the endpoint asked for it
	pausedAt instant // since when an operator holds everything back; 0: nobody does
	held     moment  // no attempt before: the subscriber may not know the subscription yet
	wakeAt   moment  // place in e.due is kept for this time
	slot     int     // in e.due, -1 when not there
	inFlight int
	width    int // attempts that may be under way now
	intake   intake
	phase    phase

	class   class
	queued  bool // in guest.ready
	dirty   bool // in shard.dirty
	open    bool // stored as open; never without a log
	touched bool // what is stored has to be replaced even if nothing is unsettled
	granted bool // the limits have been asked for the next attempt
	gapped  bool // a gap that no subscribe response has reported
	untold  bool // a gap of before that no attempt has told of: what is stored stays in front of it
	overdue bool // its expiry was told of
	// detached: the record goes on without the handle and is to be stored as open.
	detached bool
}

// An Entry is what [Engine.Add] needs to know of a subscription.
type Entry struct {
	// Subscription is the record as stored; its Progress counts in the Reader's positions.
	Subscription store.Subscription
	Reader       Reader
	// Begin, when set, is called with the handle before any method of Reader, so that the reader
	// knows which handle to wake.
	Begin func(*Handle)
	// Log is the log that Progress counts in, when its positions mean something after a restart;
	// nil for others, such as feeds of a check, whose progress is kept as Progress.Upstream. Delivery
	// begins at Progress.Base if Progress.Open is set, otherwise at the larger of it and Log's mark.
	Log *Log
	// Moved reports that the stored progress differs from Progress because it counts in another epoch:
	// the engine replaces it soon. With a Log, the stored record is open.
	Moved bool
	// Gap tells of a gap that nobody was told of: an envelope goes out with the first events. The record's
	// Truncated is set. Until an attempt has told of it, progress is not stored: the next owner finds the gap again.
	Gap bool
	// Shard is the part of the engine's subscriptions that it belongs to, which Log is of, too.
	Shard *Shard
	// Hold is when an attempt may begin at the earliest, beside the record's NotBefore; see
	// [Handle.HoldUntil].
	Hold time.Time
	// Answered is how long the endpoint took to answer its challenge a moment ago, 0 without a challenge.
	Answered time.Duration
}

// class returns the class of the first turn, from the last attempt that was stored or from the challenge.
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

// maxHold bounds how long an attempt is held back, whatever the record says: clocks differ.
const maxHold = 30 * time.Second

// Add begins to deliver to a subscription from its progress on. Errors are [ErrClosed], a URL or
// secret that cannot be used, and those of the store; then Reader.Close is not called.
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
		open: n.Log != nil && s.Progress.Open, touched: n.Moved,
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

// ID is the subscription's id.
func (h *Handle) ID() string { return h.id }

// URL is where it is delivered to.
func (h *Handle) URL() string { return h.url }

// Generation is that of the subscription's record.
func (h *Handle) Generation() uint64 { return h.generation }

// Event is the name of the subscription's event type.
func (h *Handle) Event() string { return h.event }

// Wake says that the log may hold something for the subscription. It is a hint that may come at
// any time, too often and from under the lock of an append; it never waits.
func (h *Handle) Wake() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.gone() || !h.intake.wake() {
		return
	}
	h.e.changed(h)
	h.e.scheduleNow(h)
}

// HoldUntil lets attempts begin at that time, earlier or later than was said before. Those under
// way go on.
func (h *Handle) HoldUntil(t time.Time) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	now := h.e.now()
	h.hold(now, t)
	h.e.schedule(h, now)
}

// hold takes the latest of the times.
func (h *Handle) hold(now time.Time, times ...time.Time) {
	h.held = 0
	for _, t := range times {
		if t.After(now) {
			h.held = max(h.held, h.e.clock().plus(min(t.Sub(now), maxHold)))
		}
	}
}

// Refresh takes over secrets, code family and expiry of the record, reactivates a suspended
// subscription and returns the status that it found. No attempt begins before the record's
// NotBefore and hold. It returns false, and changes nothing, when the subscription has ended or is past
// its expiry at this moment: then only subscribing anew helps (SUB-5, HOOK-8).
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

// Watermark is the safe cursor (HOOK-6): nil for a type without replay.
func (h *Handle) Watermark() *string { return h.reader.Cursor(h.Base()) }

// Base is the position up to which everything is settled.
func (h *Handle) Base() store.Position {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.passParked()
	return h.marks.Base()
}

// Concerned tells whether the occurrence at p concerns the subscription, and whether it needs nothing any more.
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

// withUpstream adds the cursor text of subscriptions whose positions end with the process.
func (h *Handle) withUpstream(p store.Progress) store.Progress {
	if h.log == nil {
		if c := h.reader.Cursor(p.Base); c != nil {
			p.Upstream = *c
		}
	}
	return p
}

// passParked moves the watermark of a parked subscription to where its reader stands. It gives up
// e.mu during the call.
func (h *Handle) passParked() {
	turn := h.intake.turn
	if !h.intake.parked || h.intake.reading || h.gone() || h.intake.parkedIn != turn {
		return
	}
	h.e.mu.Unlock()
	p := h.reader.Passed()
	h.e.mu.Lock()
	// What is found after this call is above p, even when another turn has begun to read meanwhile.
	if h.intake.turn == turn {
		h.marks.Pass(p)
	}
}

// hasGaps reports whether a loss can be told of: without replay there is no cursor to go on from,
// and a receiver cannot tell the loss from quiet (CUR-7). It is not called under e.mu.
func (h *Handle) hasGaps() bool { return h.Watermark() != nil }

// Gap sends a gap envelope, as if occurrences had been lost (SRV-8). A type without replay gets
// none.
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

// Truncated reports whether there was a gap since the last call with take (D7).
func (h *Handle) Truncated(take bool) bool {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	gapped := h.gapped
	if take {
		h.gapped = false
	}
	return gapped
}

// Extend moves the expiry, also when its time is over already; zero is none. It is for records that were
// refreshed elsewhere.
func (h *Handle) Extend(until time.Time) {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.gone() {
		return
	}
	h.expires, h.overdue = instantOf(until), false
	h.e.scheduleNow(h)
}

// Stop lets no attempt begin any more, whatever is told of the subscription: it is about to end, by
// Remove or Terminate.
func (h *Handle) Stop() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.phase = max(h.phase, stopping)
}

// Remove ends the subscription without a word: attempts under way are abandoned, their answers
// count for nothing, and what would be retried is forgotten. It is idempotent.
func (h *Handle) Remove() {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.end()
	h.release()
}

// Detach does what [Handle.Remove] does for a subscription whose record stays and is to be added again later: it
// is stored as open before the log's mark moves, so that nothing is passed over meanwhile.
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

// end stops deliveries and envelopes. The caller calls release when nothing follows.
func (h *Handle) end() {
	h.cancel()
	h.phase = max(h.phase, ended)
	h.controls, h.stats, h.made, h.limiter = nil, nil, nil, nil
	h.forget()
	h.e.due.remove(h)
}

// gone reports whether nothing but a terminated envelope is sent any more.
func (h *Handle) gone() bool { return h.phase >= ended }

// cancel cuts off what is under way.
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

// forget drops what is unsettled, whatever becomes of attempts under way.
func (h *Handle) forget() {
	for _, u := range h.window {
		u.item = nil
		u.dropped = true
	}
	h.window = nil
}

// release gives back what an ended handle holds, once nothing of it is under way.
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

// logAttrs are what every line about a subscription says of it.
func (h *Handle) logAttrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("subscription", h.id), slog.String("event", h.event)}, more...)
}
