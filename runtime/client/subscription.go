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

// A subscription is the untyped part of a Subscription. One goroutine, run, receives and fills the inbox; the
// application's goroutine, in next, empties it.
type subscription struct {
	c           *Client
	id          string
	name        string
	args        json.RawMessage
	typed       reflect.Value // args as given by the application
	fingerprint string
	opts        subscribeOptions
	log         *slog.Logger

	// ctx ends with the application's context, with Close, with the client, or, with cause errFinished, when the server
	// ends the subscription.
	ctx    context.Context
	cancel context.CancelCauseFunc
	ready  chan error    // the outcome of Subscribe, once
	done   chan struct{} // closed when run has returned
	inbox  *inbox
	ledger ledger

	callback *callback // webhook mode's; used only by run
	presence presence

	iterating sync.Mutex // held by the current iteration; guards held
	held      *item

	mu       sync.Mutex
	cursor   string // where the loop resumes; ahead of the ledger by the inbox's contents
	seen     *idSet
	advances int64 // occurrences that were new, or repeated for the first time since a new one
	modeName string
	refused  map[string]bool // excluded modes
	standing standing
	pauses   pauses
	status   Status
	meta     map[string]any    // the descriptor's
	endpoint *webhook.Endpoint // the newest one; nil in other modes
}

// run receives until the subscription ends.
func (s *subscription) run() {
	defer close(s.done)
	err := s.receive()
	s.releaseCallback()
	s.c.remove(s)
	s.inbox.end(err)
	s.cancel(errFinished)
	select {
	case s.ready <- err:
	default:
	}
	s.log.Debug("subscription ended", "err", err)
}

// receive runs one leg after another.
func (s *subscription) receive() error {
	for {
		err := s.runLeg()
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		s.failed(err)
		pause, err := s.follow(err)
		if err != nil {
			return err
		}
		if pause > 0 && sleep(s.ctx, pause) != nil {
			return context.Cause(s.ctx)
		}
	}
}

// follow acts on the end of a leg. It returns the pause before the next leg, or the error that ends the subscription.
func (s *subscription) follow(err error) (pause time.Duration, end error) {
	all, known := s.c.catalog.get()
	_, listed := find(all, s.name)
	e := ending{err: err, event: s.name, now: time.Now(), redialable: redialable(s.c.transport), shared: s.c.shared(),
		listed: listed || !known, forced: s.opts.mode != "", waiting: s.opts.wait}
	s.mu.Lock()
	e.cursor, e.received = s.cursor, s.status.Received
	var next step
	s.standing, next = s.standing.next(e)
	if next.withoutMode {
		s.refused[s.modeName] = true
	}
	if next.fromNow {
		s.cursor = ""
	}
	if next.wait {
		pause = s.pauses.next(next.brisk)
	}
	s.mu.Unlock()
	switch next.relist {
	case relistNow:
		s.c.catalog.forget()
	case relistSoon:
		s.c.catalog.forgetAgain()
	}
	if next.end != nil {
		return 0, next.end
	}
	if next.fromNow {
		s.log.Warn("the server refuses the cursor because the schema changed; starting from now")
		if err := s.gap(s.ctx, nil); err != nil {
			return 0, err
		}
	}
	if next.tell != nil {
		if err := s.note(s.ctx, next.tell); err != nil {
			return 0, err
		}
	}
	if !next.wait {
		return 0, nil
	}
	if s.callback != nil {
		pause = s.callback.beforeLapse(pause)
	}
	if asked := (*waitError)(nil); errors.As(err, &asked) {
		pause = max(pause, asked.after)
	}
	return pause, nil
}

// isStuck reports whether the process at the other end of a shared carrier has stopped answering.
func (s *subscription) isStuck(ctx context.Context, sess *session) bool {
	if !redialable(s.c.transport) {
		return false
	}
	_, err := s.c.list(ctx, sess)
	return errors.Is(err, context.DeadlineExceeded)
}

func (s *subscription) runLeg() error {
	sess, err := s.c.live(s.ctx, s.isAccepted())
	if err != nil {
		return err
	}
	ctx, cancel := sess.join(s.ctx)
	defer cancel()
	if s.opts.carrier != nil {
		return s.runCarrier(ctx, sess)
	}
	if !sess.events && s.isAccepted() {
		sess.suspect() // it advertised events before; the next handshake may show them again
		return ErrNoEvents
	}
	d, err := s.c.describe(ctx, sess, s.name)
	if err != nil {
		return err
	}
	s.compare(d)
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
		sess.suspect()
		return err
	case errors.Is(err, errSilent) && sess.board.shared && s.isStuck(ctx, sess):
		sess.lose()
	}
	if told := (*TerminatedError)(nil); ctx.Err() != nil && s.ctx.Err() == nil && !errors.As(err, &told) {
		return sess.board.loss()
	}
	return err
}

// newCall returns a call with this subscription's presence.
func (s *subscription) newCall(in *inflow) *call {
	c := newCall(in)
	c.presence = &s.presence
	return c
}

// established records that the server accepted, and unblocks Subscribe. It reports whether the server had accepted
// before.
func (s *subscription) established() (before bool) {
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

// described returns the _meta of the last descriptor.
func (s *subscription) described() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta
}

func (s *subscription) isAccepted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing.accepted
}

// progress records that delivery works, which resets the failure counters.
func (s *subscription) progress() {
	s.mu.Lock()
	s.standing.progress()
	s.pauses.reset()
	s.mu.Unlock()
	s.heard()
}

// heard records that the server sent something.
func (s *subscription) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.LastFrame = time.Now()
}

// resume returns the cursor for the next request, or nil for "from now".
func (s *subscription) resume() *string {
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

// reach moves the cursor. An absent or null cursor changes nothing: a type that has cursors always has them (CUR-3).
func (s *subscription) reach(cursor *string) {
	if cursor == nil || *cursor == "" {
		return
	}
	s.mu.Lock()
	same := s.cursor == *cursor
	s.cursor = *cursor
	s.mu.Unlock()
	if !same {
		s.inbox.advance(cursor, 0)
	}
}

// takeRaw decodes and takes an occurrence. A malformed one is reported in its place. Its cursor counts only on a stream
// (OCC-3).
func (s *subscription) takeRaw(ctx context.Context, raw json.RawMessage, streamed bool) error {
	o := &wire.Occurrence{}
	err := wire.Decode(raw, o)
	if err == nil && o.EventID == "" {
		err = errors.New("/eventId is missing") // duplicates could not be recognized
	}
	if err != nil {
		return s.note(ctx, &PayloadError{Occurrence: events.Occurrence{Name: s.name, Raw: raw}, Err: err})
	}
	if !streamed {
		o.Cursor = nil
	}
	o.Cursor = s.usable(o.Cursor)
	return s.take(ctx, o, o.Cursor)
}

// take hands one occurrence over. cursor is the position after it, nil within a batch.
func (s *subscription) take(ctx context.Context, o *wire.Occurrence, cursor *string) error {
	return s.takeItem(ctx, item{occurrence: o, cursor: cursor})
}

// takeItem hands an occurrence over unless it is a duplicate or the policy withholds it.
func (s *subscription) takeItem(ctx context.Context, it item) error {
	o := it.occurrence
	if err := s.misplaced(o); err != nil {
		return s.report(ctx, it, err)
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
		s.pass(it)
		return nil
	}
	if err := s.inbox.put(ctx, it); err != nil {
		s.mu.Lock()
		s.seen.remove(o.EventID) // it is received again after the cursor
		s.mu.Unlock()
		return err
	}
	s.passed(it)
	return nil
}

// pass advances the cursor over an item that is not shown.
func (s *subscription) pass(it item) {
	if it.sequence == 0 {
		s.reach(it.cursor)
		return
	}
	s.inbox.advance(it.cursor, it.sequence)
}

// passed moves the cursor at which the loop resumes. For stored items it moved when they were stored.
func (s *subscription) passed(it item) {
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
	known, err := occurrence(o)
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

// note hands over an error that does not end the subscription.
func (s *subscription) note(ctx context.Context, err error) error {
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

// next commits the items handed out before (CLI-6) and waits for the next item to show. Once quit is closed it returns
// errQuit.
func (s *subscription) next(quit <-chan struct{}) (item, error) {
	for {
		if err := context.Cause(s.ctx); err != nil && err != errFinished {
			return item{}, err
		}
		it, ok, err := s.skipAdvances()
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

// skipAdvances takes the first item to show, and records the advances before it.
func (s *subscription) skipAdvances() (item, bool, error) {
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
