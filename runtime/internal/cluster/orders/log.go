package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	controlChunk = 64
	// maxBefore is the maximum number of existing orders that are read from a log after its epoch has changed.
	maxBefore = 1024
	// maxLookAge is the maximum interval between two reads of the control log by the follower.
	maxLookAge = 500 * time.Millisecond
	// orderTime is the timeout for the execution of an order, which can call the author's hooks.
	orderTime = time.Minute
	// firstPause and maxPause limit the pause before an append is repeated if its result is unknown.
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// MaxUnheard is the maximum age of the last look at the control log. If the last look is older, deliveries do not start
// (REP-11).
const MaxUnheard = 2 * time.Second

// Options configures a [Log].
type Options struct {
	Store engine.Shared
	// Now returns the current time of the store. Refresh updates the time if it might be inaccurate (REP-8).
	Now     func() time.Time
	Refresh func(ctx context.Context)
	Report  *fault.Log
}

// A Log sends orders to the other processes on a shared store and executes the orders from those processes.
type Log struct {
	o         Options
	host      Host   // executes orders of others; nil while the log is not followed
	own       string // prefix of the eventIds of orders that this process has executed
	wake      topic.Wake
	ctx       context.Context
	stop      context.CancelFunc
	following sync.WaitGroup

	mu      sync.Mutex
	log     store.EventLog        // nil until it is opened, and after its epoch has ended
	pos     store.ControlPosition // of the follower, in the generation of the log
	known   store.ControlPosition // latest position that this process has read or appended
	opened  bool
	lost    bool                // it was reopened: orders in between may be missing
	closing map[string]struct{} // event types whose permanent state must be read
	orders  orderQueue

	upToNow atomic.Pointer[look] // the last look after which everything was read
	swept   atomic.Int64         // when old states were last deleted, in Unix nanoseconds
}

// A look records when the process began to read the log, by the monotonic clock and by the wall clock.
type look struct{ at, wall time.Time }

// isRecent reports whether the look is recent by both clocks. The monotonic clock may stop while the machine sleeps, and
// the wall clock may be set back.
func (k *look) isRecent(now time.Time) bool {
	return now.Sub(k.at) <= MaxUnheard && now.Round(0).Sub(k.wall) <= MaxUnheard
}

// New returns a Log that can send orders. If [Log.Follow] is used, it must be called before all other methods.
func New(o Options) *Log {
	l := &Log{o: o, wake: topic.NewWake(), own: uuid.NewString() + "/", closing: map[string]struct{}{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.orders.do, l.orders.over = l.executeOrder, func() bool { return l.ctx.Err() != nil }
	return l
}

// Follow follows the control log from its current end until [Log.Shutdown]. It executes the orders from other processes
// with host.
func (l *Log) Follow(ctx context.Context, host Host) error {
	l.host = host
	if err := l.openAtEnd(ctx); err != nil {
		l.stop()
		return fmt.Errorf("opening the control log: %w", err)
	}
	l.following.Go(l.executeOrders)
	return nil
}

// openAtEnd opens the log at its current end. If the epoch has changed, it opens the log at the first order that might
// be new.
func (l *Log) openAtEnd(ctx context.Context) error {
	log, generation, err := l.openInGeneration(ctx)
	if err != nil {
		return err
	}
	if _, ok := log.(engine.Log); !ok {
		return fmt.Errorf("a log of the shared store is a %T, which does not implement engine.Log", log)
	}
	_, pos, err := log.Bounds(ctx)
	if err != nil {
		return err
	}
	if seen := l.upToNow.Load(); seen != nil {
		if pos, err = positionBefore(ctx, log, pos, l.o.Now().Add(-time.Since(seen.at)-MaxUnheard)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost, l.opened = l.lost || l.opened, true
	l.log, l.pos = log, store.ControlPosition{Generation: generation, Position: pos}
	l.noteKnown(l.pos)
	return nil
}

// openInGeneration opens the log and returns the generation of the store to which the opened log belongs.
func (l *Log) openInGeneration(ctx context.Context) (store.EventLog, uint64, error) {
	for {
		generation := l.o.Store.Generation()
		log, err := l.o.Store.OpenLog(ctx, engine.ControlLog, store.LogOptions{MaxAge: engine.ControlAge, Appended: func([]store.Entry) { l.wake.Ring() }})
		if err != nil || l.o.Store.Generation() == generation {
			return log, generation, err
		}
	}
}

// noteKnown notes that p is in the log. The lock must be held.
func (l *Log) noteKnown(p store.ControlPosition) {
	if p.Compare(l.known) > 0 {
		l.known = p
	}
}

// Position returns the latest position that this process has read or appended. It is the position of a subscription
// that the process begins to admit now (REP-13).
func (l *Log) Position() store.ControlPosition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// Request returns the position of a new request, which is after the head of the log in the store. The request covers the
// subscriptions that any process has admitted before the call. If the store fails, Request also returns a position that
// covers the admissions of this process.
func (l *Log) Request(ctx context.Context) (store.ControlPosition, error) {
	for {
		log, pos, err := l.openLog(ctx)
		if err == nil {
			pos.Position, err = log.(engine.Log).CatchUp(ctx, math.MaxInt64) // openAtEnd has checked the type
		}
		switch {
		case err == nil:
			return pos.Next(), nil
		case errors.Is(err, engine.ErrNewEpoch):
			l.closeOldEpoch(log)
		default:
			return l.Position().Next(), fmt.Errorf("reading the control log: %w", err)
		}
	}
}

// positionBefore returns the position before the first order since the given time, but at most maxBefore orders before
// the head. A log with a new epoch can already contain orders when a process detects the epoch.
func positionBefore(ctx context.Context, log store.EventLog, head store.Position, since time.Time) (store.Position, error) {
	for pos := head - min(head, maxBefore); pos < head; {
		b, err := log.Read(ctx, pos, maxBefore)
		if err != nil || len(b.Entries) == 0 {
			return head, err
		}
		for i := range b.Entries {
			if pos = b.Entries[i].Position; !b.Entries[i].Timestamp.Before(since) {
				return pos - 1, nil
			}
		}
	}
	return head, nil
}

// openLog returns the log and the follower's position. It opens the log if necessary.
func (l *Log) openLog(ctx context.Context) (store.EventLog, store.ControlPosition, error) {
	l.mu.Lock()
	log, pos := l.log, l.pos
	l.mu.Unlock()
	if log != nil {
		return log, pos, nil
	}
	if err := l.openAtEnd(ctx); err != nil {
		return nil, pos, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log, l.pos, nil
}

// EventLog returns the control log. It opens the log if necessary.
func (l *Log) EventLog(ctx context.Context) (store.EventLog, error) {
	log, _, err := l.openLog(ctx)
	return log, err
}

// Heard reports whether this process has read the recent orders of the other processes (REP-11).
func (l *Log) Heard() bool {
	seen := l.upToNow.Load()
	return seen != nil && seen.isRecent(time.Now())
}

// LastLook returns the start time of the last look at the log after which all orders had been read. It returns zero
// before the first such look.
func (l *Log) LastLook() time.Time {
	if seen := l.upToNow.Load(); seen != nil {
		return seen.at
	}
	return time.Time{}
}

// Go calls f in a goroutine, concurrently with the orders. Shutdown waits for it.
func (l *Log) Go(f func(ctx context.Context)) {
	l.orders.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, orderTime)
		defer cancel()
		f(ctx)
	})
}

// Shutdown stops following and waits for orders in progress.
func (l *Log) Shutdown() {
	l.stop()
	l.following.Wait()
	l.orders.wait()
}

// Tell sends an order to the other processes for an action that this process has performed. If the store's response is
// lost, it retries until ctx is done, as Emit does.
func (l *Log) Tell(ctx context.Context, o Order) error { return l.appendOrder(ctx, o, true) }

// Ask requests an action that this process could not perform, for example because the target is live in another
// process. It retries like Tell.
func (l *Log) Ask(ctx context.Context, o Order) error { return l.appendOrder(ctx, o, false) }

func (l *Log) appendOrder(ctx context.Context, o Order, done bool) error {
	l.o.Refresh(ctx)
	now := l.o.Now()
	if err := l.storeEffect(ctx, &o, now); err != nil {
		return fmt.Errorf("storing the effect of an order: %w", err)
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	if done {
		id = l.own + id
	}
	e := store.Entry{EventID: id, Timestamp: events.NewTime(now), Data: data}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		log, pos, err := l.openLog(ctx)
		if err == nil {
			pos.Position, _, err = log.AppendOnce(ctx, e, 0)
		}
		switch {
		case err == nil:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.noteKnown(pos)
			return nil
		case errors.Is(err, engine.ErrNewEpoch):
			l.closeOldEpoch(log)
		case !errors.Is(err, store.ErrUncertain):
			return fmt.Errorf("telling the other processes: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("telling the other processes: %w", errors.Join(err, ctx.Err()))
		case <-l.ctx.Done():
			return fmt.Errorf("telling the other processes: %w", events.ErrClosed)
		case <-time.After(pause):
		}
	}
}

// closeOldEpoch closes the log after its epoch has ended. The next use reopens it.
func (l *Log) closeOldEpoch(old store.EventLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == old {
		l.log = nil
	}
}

// executeOrders executes orders from other processes until the server shuts down.
func (l *Log) executeOrders() {
	for l.ctx.Err() == nil {
		more, err := l.readOrders()
		switch {
		case l.ctx.Err() != nil:
			return
		case err != nil:
			l.o.Report.Internal(l.ctx, "following the control log", err)
			select {
			case <-l.ctx.Done():
			case <-time.After(time.Second):
			}
		case !more:
			select {
			case <-l.ctx.Done():
			case <-l.wake:
			case <-time.After(maxLookAge): // neither a log whose epoch has ended nor a lost notification wakes this loop
			}
		}
	}
}

// readOrders reads the next orders and handles them.
func (l *Log) readOrders() (more bool, err error) {
	log, pos, err := l.openLog(l.ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	lost := l.lost
	l.lost = false
	l.mu.Unlock()
	if lost {
		l.recoverMissed()
	}
	if err := l.readTerminations(); err != nil {
		return false, err
	}
	shared := log.(engine.Log) // open has checked this
	if time.Since(shared.Seen()) >= maxLookAge {
		if _, err := shared.CatchUp(l.ctx, pos.Position+1); errors.Is(err, engine.ErrNewEpoch) {
			l.closeOldEpoch(log)
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	seen := shared.Seen()
	b, err := log.Read(l.ctx, pos.Position, controlChunk)
	if errors.Is(err, engine.ErrNewEpoch) {
		l.closeOldEpoch(log)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if b.Gap {
		l.recoverMissed()
		l.setPosition(log, b.Oldest-1)
	}
	for i := range b.Entries {
		l.handleEntry(&b.Entries[i])
		l.setPosition(log, b.Entries[i].Position)
	}
	if len(b.Entries) == 0 && !b.Gap {
		l.upToNow.Store(&look{seen, seen.Round(0)})
	}
	return len(b.Entries) > 0, nil
}

// RecallLater schedules a read of the event type's stored termination. The follower retries the read until it succeeds.
func (l *Log) RecallLater(event string) {
	l.mu.Lock()
	l.closing[event] = struct{}{}
	l.mu.Unlock()
	l.wake.Ring()
}

func (l *Log) readTerminations() error {
	l.mu.Lock()
	names := slices.Sorted(maps.Keys(l.closing))
	l.mu.Unlock()
	for _, name := range names {
		l.mu.Lock()
		delete(l.closing, name)
		l.mu.Unlock()
		if err := l.host.Recall(l.ctx, name); err != nil {
			l.RecallLater(name)
			return err
		}
	}
	return nil
}

func (l *Log) setPosition(of store.EventLog, to store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == of {
		l.pos.Position = max(l.pos.Position, to)
		l.noteKnown(l.pos)
	}
}

// handleEntry handles one order. It handles a changed record immediately. Other orders can call the author's hooks, so
// it adds them to a queue.
func (l *Log) handleEntry(e *store.Entry) {
	var o Order
	if err := json.Unmarshal(e.Data, &o); err != nil {
		l.o.Report.Internal(l.ctx, "reading an order of another process", err)
		return
	}
	if o.Kind == Changed {
		if o.Target != nil {
			l.host.Changed(o.Target.ID, engine.Shard{Topic: o.Target.Event, Number: o.Shard})
		}
		return
	}
	if strings.HasPrefix(e.EventID, l.own) { // the process did it before Tell
		return
	}
	l.host.Prepare(o)
	l.orders.add(o)
}

// executeOrder executes an order from another process.
func (l *Log) executeOrder(o Order) {
	ctx, cancel := context.WithTimeout(l.ctx, orderTime)
	defer cancel()
	if err := l.host.Do(ctx, o); err != nil {
		l.o.Report.Internal(ctx, "executing an order of another process", err)
	}
}

// recoverMissed compensates for missed orders that the log no longer retains. It reads the stored states and rechecks
// all live subscriptions with the hooks.
func (l *Log) recoverMissed() {
	ctx, cancel := context.WithTimeout(l.ctx, orderTime)
	defer cancel()
	for _, name := range l.host.EventTypes() {
		l.RecallLater(name)
	}
	if err := l.host.Compare(ctx); err != nil {
		l.o.Report.Internal(ctx, "rereading the webhook subscriptions", err)
	}
	l.Go(l.host.RecheckAll) // the author's hooks may be slow
}
