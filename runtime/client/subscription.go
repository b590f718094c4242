package client

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A subscription is the state of a [Subscription]. The goroutine that executes run receives items and fills the inbox.
// The application's goroutine empties it by calling next.
type subscription struct {
	c           *Client
	id          string
	name        string
	args        json.RawMessage
	typed       reflect.Value // args as given by the application
	fingerprint string
	opts        subscribeOptions
	log         *slog.Logger

	// ctx is cancelled when the application's context is done or when the subscription or the client is closed. If the
	// server ends the subscription, ctx is cancelled with cause errFinished.
	ctx    context.Context
	cancel context.CancelCauseFunc
	ready  chan error    // the outcome of Subscribe, once
	done   chan struct{} // closed when run has returned
	inbox  *inbox
	ledger ledger

	callback *callback // webhook mode's; used only by run
	presence availability

	iterating sync.Mutex // held by the current iteration; guards held
	held      *item

	mu       sync.Mutex
	cursor   string // where the loop resumes; ahead of the ledger by the inbox's contents
	seen     *idSet
	advances int64 // occurrences that were new, or repeated for the first time since a new one
	modeName string
	refused  map[string]bool // excluded modes
	standing retryState
	pauses   backoffState
	status   Status
	meta     map[string]any    // the descriptor's
	endpoint *webhook.Endpoint // the newest one; nil in other modes
}

// run receives events until the subscription ends.
func (s *subscription) run() {
	defer close(s.done)
	err := s.receive()
	s.releaseCallback()
	s.c.remove(s)
	s.inbox.closeWithError(err)
	s.cancel(errFinished)
	select {
	case s.ready <- err:
	default:
	}
	s.log.Debug("subscription ended", "err", err)
}

// receive runs legs until the subscription ends.
func (s *subscription) receive() error {
	for {
		err := s.runLeg()
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		s.failed(err)
		pause, err := s.handleLegEnd(err)
		if err != nil {
			return err
		}
		if pause > 0 && sleep(s.ctx, pause) != nil {
			return context.Cause(s.ctx)
		}
	}
}

// handleLegEnd handles the end of a leg. It returns the pause before the next leg, or the error that ends the
// subscription.
func (s *subscription) handleLegEnd(err error) (pause time.Duration, end error) {
	all, known := s.c.catalog.get()
	_, listed := find(all, s.name)
	e := legEnd{err: err, event: s.name, now: time.Now(), redialable: isRedialable(s.c.transport), shared: s.c.shared(),
		listed: listed || !known, forced: s.opts.mode != "", waiting: s.opts.wait}
	s.mu.Lock()
	e.cursor, e.received = s.cursor, s.status.Received
	var next step
	s.standing, next = s.standing.next(e)
	if next.excludeMode {
		s.refused[s.modeName] = true
	}
	if next.restartFromNow {
		s.cursor = ""
	}
	if next.wait {
		pause = s.pauses.next(next.brisk)
	}
	s.mu.Unlock()
	switch next.relist {
	case relistNow:
		s.c.catalog.invalidate()
	case relistSoon:
		s.c.catalog.invalidateDelayed()
	}
	if next.end != nil {
		return 0, next.end
	}
	if next.restartFromNow {
		s.log.Warn("the server refuses the cursor because the schema changed; starting from now")
		if err := s.queueGap(s.ctx, nil); err != nil {
			return 0, err
		}
	}
	if next.tell != nil {
		if err := s.queueError(s.ctx, next.tell); err != nil {
			return 0, err
		}
	}
	if !next.wait {
		return 0, nil
	}
	if s.callback != nil {
		pause = s.callback.limitPause(pause)
	}
	if asked := (*waitError)(nil); errors.As(err, &asked) {
		pause = max(pause, asked.after)
	}
	return pause, nil
}

// isStuck reports whether the peer of a shared carrier, such as a process, has stopped answering.
func (s *subscription) isStuck(ctx context.Context, sess *session) bool {
	if !isRedialable(s.c.transport) {
		return false
	}
	_, err := s.c.listEventTypes(ctx, sess)
	return errors.Is(err, context.DeadlineExceeded)
}

func (s *subscription) runLeg() error {
	sess, err := s.c.liveSession(s.ctx, s.isAccepted())
	if err != nil {
		return err
	}
	ctx, cancel := sess.withSession(s.ctx)
	defer cancel()
	if s.opts.carrier != nil {
		return s.runCarrier(ctx, sess)
	}
	if !sess.events && s.isAccepted() {
		sess.requireHandshake() // it advertised events before; the next handshake may show them again
		return ErrNoEvents
	}
	d, err := s.c.describe(ctx, sess, s.name)
	if err != nil {
		return err
	}
	s.checkDescriptor(d)
	if len(s.opts.notBy) > 0 && wire.ActorOf(d.Meta) == "" {
		return &NoActorError{Event: s.name}
	}
	s.mu.Lock()
	s.meta = d.Meta
	mode, err := selectMode(s.name, d.Delivery, s.opts.mode, s.refused)
	if err == nil {
		s.modeName = mode.name
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if mode.name != wire.ModeWebhook {
		s.releaseCallback()
	}
	err = mode.run(ctx, s, sess)
	switch {
	case errors.As(err, new(*staleError)):
		sess.requireHandshake()
		return err
	case errors.Is(err, errSilent) && sess.board.shared && s.isStuck(ctx, sess):
		sess.lose()
	}
	if told := (*TerminatedError)(nil); ctx.Err() != nil && s.ctx.Err() == nil && !errors.As(err, &told) {
		return sess.board.lossError()
	}
	return err
}

// newCall returns a call whose answers are recorded in the subscription's availability.
func (s *subscription) newCall(in *frameQueue) *call {
	c := newCall(in)
	c.availability = &s.presence
	return c
}

// recordAccepted records that the server has accepted the subscription, and unblocks Subscribe. It reports whether the
// server had accepted it before.
func (s *subscription) recordAccepted() (before bool) {
	s.mu.Lock()
	before, again := s.standing.accept()
	s.status.LastFrame = time.Now()
	s.mu.Unlock()
	if before && again {
		s.log.Info("receiving again")
	}
	if !before {
		s.ready <- nil
	}
	return before
}

// descriptorMeta returns the _meta of the latest descriptor.
func (s *subscription) descriptorMeta() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta
}

func (s *subscription) isAccepted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing.accepted
}

// recordProgress records that delivery works, which resets the failure counters.
func (s *subscription) recordProgress() {
	s.mu.Lock()
	s.standing.recordProgress()
	s.pauses.reset()
	s.mu.Unlock()
	s.recordActivity()
}

// recordActivity records that the server sent data.
func (s *subscription) recordActivity() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.LastFrame = time.Now()
}

// resumeCursor returns the cursor for the next request, or nil to start from now.
func (s *subscription) resumeCursor() *string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor == "" {
		return nil
	}
	cursor := s.cursor
	return &cursor
}

func (s *subscription) maxAge() *int64 {
	if s.opts.maxAge < 0 {
		return nil
	}
	ms := s.opts.maxAge.Milliseconds()
	return &ms
}

// moveCursor sets the cursor. It ignores an absent or null cursor, because a type with cursors always sends them
// (CUR-3).
func (s *subscription) moveCursor(cursor *string) {
	if cursor == nil || *cursor == "" {
		return
	}
	s.mu.Lock()
	same := s.cursor == *cursor
	s.cursor = *cursor
	s.mu.Unlock()
	switch {
	case same:
	case s.inbox.untouched(): // the position before the first item, which no iteration needs to reach
		s.ledger.handOut(item{cursor: cursor})
		wake(s.inbox.more) // next saves it
	default:
		s.inbox.advance(cursor, 0)
	}
}

// queueRaw decodes and queues an occurrence. If it is malformed, queueRaw queues a PayloadError instead. The
// occurrence's cursor is used only on a stream (OCC-3).
func (s *subscription) queueRaw(ctx context.Context, raw json.RawMessage, streamed bool) error {
	o := &wire.Occurrence{}
	err := wire.Decode(raw, o)
	if err == nil && o.EventID == "" {
		err = errors.New("/eventId is missing") // duplicates could not be recognized
	}
	if err != nil {
		return s.queueError(ctx, &PayloadError{Occurrence: events.Occurrence{Name: s.name, Raw: raw}, Err: err})
	}
	if !streamed {
		o.Cursor = nil
	}
	o.Cursor = s.usableCursor(o.Cursor)
	return s.queue(ctx, o, o.Cursor)
}

// queue queues an occurrence. The cursor is the position after it, or nil within a batch.
func (s *subscription) queue(ctx context.Context, o *wire.Occurrence, cursor *string) error {
	return s.queueItem(ctx, item{occurrence: o, cursor: cursor})
}

// queueItem queues an occurrence unless it is a duplicate or the policy withholds it.
func (s *subscription) queueItem(ctx context.Context, it item) error {
	o := it.occurrence
	if err := s.checkOccurrence(o); err != nil {
		return s.queueInvalid(ctx, it, err)
	}
	s.checkFingerprint(o)
	s.mu.Lock()
	fresh, again := s.seen.add(o.EventID)
	if fresh || again {
		s.advances++
	}
	if fresh {
		s.status.Received++
	} else {
		s.status.Duplicates++
	}
	s.mu.Unlock()
	if !fresh || !s.allowed(ctx, o) {
		s.skipItem(it)
		return nil
	}
	if err := s.inbox.put(ctx, it); err != nil {
		s.mu.Lock()
		s.seen.remove(o.EventID) // it is received again after the cursor
		s.mu.Unlock()
		return err
	}
	s.recordQueued(it)
	return nil
}

// skipItem advances the cursor past an item that the application does not receive.
func (s *subscription) skipItem(it item) {
	if it.sequence == 0 {
		s.moveCursor(it.cursor)
		return
	}
	s.inbox.advance(it.cursor, it.sequence)
}

// recordQueued sets the cursor from which the loop resumes. For stored items, the cursor was set when they were stored.
func (s *subscription) recordQueued(it item) {
	if it.sequence != 0 || it.cursor == nil || *it.cursor == "" {
		return
	}
	s.mu.Lock()
	s.cursor = *it.cursor
	s.mu.Unlock()
}

func (s *subscription) allowed(ctx context.Context, o *wire.Occurrence) bool {
	policy := s.c.opts.Policy
	if policy == nil {
		return true
	}
	known, err := toOccurrence(o)
	if err == nil {
		err = policy(ctx, known)
	}
	if err == nil {
		return true
	}
	s.log.Info("a policy withheld an occurrence", "eventId", o.EventID, "err", err)
	s.mu.Lock()
	s.status.Withheld++
	s.mu.Unlock()
	return false
}

// queueError queues an error that does not end the subscription.
func (s *subscription) queueError(ctx context.Context, err error) error {
	return s.inbox.put(ctx, item{note: err})
}

func (s *subscription) failed(err error) {
	s.mu.Lock()
	s.status.LastError = err
	s.mu.Unlock()
	s.log.Debug("leg ended", "err", err)
}

// errQuit is returned by next once its quit channel is closed.
var errQuit = errors.New("client: nobody waits")

// next commits all items handed out so far (CLI-6) and waits for the next item for the application. Once quit is
// closed, it returns errQuit.
func (s *subscription) next(quit <-chan struct{}) (item, error) {
	for {
		if err := context.Cause(s.ctx); err != nil && err != errFinished {
			return item{}, err
		}
		it, ok, err := s.tryTakeItem()
		if !s.opts.manualAck {
			if commit := s.ledger.commit(s.ctx); commit != nil {
				if ok {
					s.held = &it
				}
				return item{note: commit}, nil
			}
		}
		if ok {
			it.place = s.ledger.handOut(it)
			return it, nil
		}
		if err != nil {
			return item{}, err
		}
		stop := s.ctx.Done()
		if context.Cause(s.ctx) == errFinished {
			stop = nil
		}
		select {
		case <-s.inbox.more:
		case <-stop:
		case <-quit:
			return item{}, errQuit
		}
	}
}

// tryTakeItem removes and returns the first item for the application. It records the cursor advances that precede that
// item.
func (s *subscription) tryTakeItem() (item, bool, error) {
	if held := s.held; held != nil {
		s.held = nil
		return *held, true, nil
	}
	for {
		it, ok, err := s.inbox.tryTake()
		if !ok || it.shown() {
			return it, ok, err
		}
		s.ledger.handOut(it)
	}
}

// close ends the subscription and waits for its goroutine.
func (s *subscription) close() {
	s.cancel(errUserClosed)
	<-s.done
}
