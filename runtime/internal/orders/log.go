package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// lookEvery is how old a look at the control log may be before it is looked again.
	lookEvery = 500 * time.Millisecond
	// orderTime bounds what one order may take: the author's hooks are asked.
	orderTime = time.Minute
	// firstPause and maxPause are the waits before an order is told again whose fate is unknown.
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// MaxUnheard is how old a look at the control log may be while deliveries begin (REP-11).
const MaxUnheard = 2 * time.Second

// Options configure a [Log].
type Options struct {
	Store engine.Shared
	// Now is the store's time, and Refresh asks for it where it may have become wrong (REP-8).
	Now     func() time.Time
	Refresh func(ctx context.Context)
	Report  *fault.Log
}

// A Log tells the processes on a shared store of orders, and has those of others done.
type Log struct {
	o         Options
	host      Host // does what others order; nil while nothing is followed
	wake      topic.Wake
	ctx       context.Context
	stop      context.CancelFunc
	following sync.WaitGroup

	mu      sync.Mutex
	log     store.EventLog // nil until it is opened, and when its epoch is over
	pos     store.Position // the follower's
	opened  bool
	lost    bool                // it was opened again: what was ordered in between is not known
	own     map[string]struct{} // eventIds of orders of this process that were not met in the log yet
	closing map[string]struct{} // event types whose lasting state is to be read
	backlog backlog

	upToNow atomic.Pointer[time.Time] // when the last look began after which everything was read
}

// New makes a log that gives orders. [Log.Follow] comes before all else, if at all.
func New(o Options) *Log {
	l := &Log{o: o, wake: topic.NewWake(), own: map[string]struct{}{}, closing: map[string]struct{}{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.backlog.l = l
	return l
}

// Follow begins to follow the control log from its present end, until [Log.Shutdown]. The host does what others order.
func (l *Log) Follow(ctx context.Context, host Host) error {
	l.host = host
	if err := l.open(ctx); err != nil {
		l.stop()
		return fmt.Errorf("opening the control log: %w", err)
	}
	l.following.Go(l.follow)
	return nil
}

// open opens the log at its end, and again after what was done of it.
func (l *Log) open(ctx context.Context) error {
	log, err := l.o.Store.OpenLog(ctx, engine.ControlLog, store.LogOptions{MaxAge: engine.ControlAge, Appended: func([]store.Entry) { l.wake.Ring() }})
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
		if pos, err = before(ctx, log, pos, l.o.Now().Add(-time.Since(*seen)-MaxUnheard)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost, l.opened = l.lost || l.opened, true
	l.backlog.begin(pos)
	l.log, l.pos = log, pos
	return nil
}

// before is the position after which orders were given since a time, or earlierChunk before the head if there are more:
// a log that begins a new epoch has some already when a process hears of that.
func before(ctx context.Context, log store.EventLog, head store.Position, since time.Time) (store.Position, error) {
	for pos := head - min(head, earlierChunk); pos < head; {
		b, err := log.Read(ctx, pos, earlierChunk)
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

// at is the log as far as it is open.
func (l *Log) at(ctx context.Context) (store.EventLog, store.Position, error) {
	l.mu.Lock()
	log, pos := l.log, l.pos
	l.mu.Unlock()
	if log != nil {
		return log, pos, nil
	}
	if err := l.open(ctx); err != nil {
		return nil, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log, l.pos, nil
}

// EventLog is the control log as it is open now.
func (l *Log) EventLog(ctx context.Context) (store.EventLog, error) {
	log, _, err := l.at(ctx)
	return log, err
}

// Heard reports whether it is known up to a moment ago what the other processes have done (REP-11).
func (l *Log) Heard() bool {
	seen := l.upToNow.Load()
	return seen != nil && time.Since(*seen) <= MaxUnheard
}

// LastLook is when the last look at the log began after which everything was read; zero for never.
func (l *Log) LastLook() time.Time {
	if seen := l.upToNow.Load(); seen != nil {
		return *seen
	}
	return time.Time{}
}

// Go does something beside the orders, which does not hold them up. Shutdown waits for it.
func (l *Log) Go(f func(ctx context.Context)) {
	l.backlog.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, orderTime)
		defer cancel()
		f(ctx)
	})
}

// Shutdown ends the following and waits for what is under way.
func (l *Log) Shutdown() {
	l.stop()
	l.following.Wait()
	l.backlog.wait()
}

// Tell tells the others of what was done in this process. Its answer is asked for until ctx ends, as an emit's is.
func (l *Log) Tell(ctx context.Context, o Order) error { return l.append(ctx, o, true) }

// Ask has whoever it concerns do what was not done in this process, as for a target that does not live here. Its
// answer is asked for as that of Tell is.
func (l *Log) Ask(ctx context.Context, o Order) error { return l.append(ctx, o, false) }

func (l *Log) append(ctx context.Context, o Order, done bool) (err error) {
	l.o.Refresh(ctx)
	o.At = l.o.Now()
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	follows := done && l.host != nil
	if follows {
		l.mu.Lock()
		l.own[id] = struct{}{}
		l.mu.Unlock()
	}
	defer func() {
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.own, id)
		}
	}()
	e := store.Entry{EventID: id, Timestamp: events.NewTime(l.o.Now()), Data: data}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		log, _, err := l.at(ctx)
		if err == nil {
			_, _, err = log.AppendOnce(ctx, e, 0)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrNewEpoch):
			l.renew(log)
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

// renew forgets a log whose epoch is over; it is opened again when it is needed.
func (l *Log) renew(old store.EventLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == old {
		l.log = nil
	}
}

// follow does what others order until the server ends.
func (l *Log) follow() {
	for l.ctx.Err() == nil {
		more, err := l.read()
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
			case <-time.After(lookEvery): // a log whose epoch is over tells nobody, nor does a lost notification
			}
		}
	}
}

// read does the next orders.
func (l *Log) read() (more bool, err error) {
	log, pos, err := l.at(l.ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	lost := l.lost
	l.lost = false
	l.mu.Unlock()
	if lost {
		l.missed()
	}
	if err := l.recall(); err != nil {
		return false, err
	}
	shared := log.(engine.Log) // open has seen to it
	if time.Since(shared.Seen()) >= lookEvery {
		if _, err := shared.CatchUp(l.ctx, pos+1); errors.Is(err, engine.ErrNewEpoch) {
			l.renew(log)
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	seen := shared.Seen()
	b, err := log.Read(l.ctx, pos, controlChunk)
	if errors.Is(err, engine.ErrNewEpoch) {
		l.renew(log)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if b.Gap {
		l.missed()
		l.advance(log, b.Oldest-1)
	}
	for i := range b.Entries {
		l.take(&b.Entries[i])
		l.advance(log, b.Entries[i].Position)
	}
	if len(b.Entries) == 0 && !b.Gap {
		l.upToNow.Store(&seen)
	}
	return len(b.Entries) > 0, nil
}

// RecallLater has the follower read whether the type was terminated, until that succeeds.
func (l *Log) RecallLater(event string) {
	l.mu.Lock()
	l.closing[event] = struct{}{}
	l.mu.Unlock()
	l.wake.Ring()
}

func (l *Log) recall() error {
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

func (l *Log) advance(of store.EventLog, to store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == of {
		l.pos = max(l.pos, to)
	}
}

// take takes one order. That a record was changed is heard of at once; what may take its time, since the
// author's hooks are asked, waits in the backlog.
func (l *Log) take(e *store.Entry) {
	l.mu.Lock()
	_, own := l.own[e.EventID]
	delete(l.own, e.EventID)
	l.mu.Unlock()
	var o Order
	if err := json.Unmarshal(e.Data, &o); err != nil {
		l.o.Report.Internal(l.ctx, "reading an order of another process", err)
		return
	}
	if o.Kind == Changed {
		l.backlog.pass(e.Position)
		if o.Target != nil {
			l.host.Changed(o.Target.ID, engine.Shard{Topic: o.Target.Event, Number: o.Shard})
		}
		return
	}
	// Own ones were done where they were asked for, and what goes live from now on finds it in the backlog. What went
	// live in between did neither.
	l.backlog.add(placed{e.Position, o}, own)
	if stopped := l.host.Stop(o); own && stopped > 0 {
		l.backlog.add(placed{e.Position, o}, false)
	}
}

// do does an order.
func (l *Log) do(o Order) {
	ctx, cancel := context.WithTimeout(l.ctx, orderTime)
	defer cancel()
	if err := l.host.Do(ctx, o); err != nil {
		l.o.Report.Internal(ctx, "doing what another process was asked for", err)
	}
}

// missed makes up for orders that are no longer retained: lasting states are read, and hooks are asked
// for all that is live.
func (l *Log) missed() {
	ctx, cancel := context.WithTimeout(l.ctx, orderTime)
	defer cancel()
	for _, name := range l.host.EventTypes() {
		l.RecallLater(name)
	}
	if err := l.host.Compare(ctx); err != nil {
		l.o.Report.Internal(ctx, "reading the webhook subscriptions again", err)
	}
	l.Go(l.host.RecheckAll) // the author's hooks may take their time
}
