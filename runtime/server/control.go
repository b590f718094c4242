package server

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

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An order is what an operator asked one process for and all have to do (REP-13).
type order struct {
	Kind      string            `json:"kind"`
	Principal string            `json:"principal,omitempty"`
	Names     []string          `json:"names,omitempty"`
	Target    *operator.Target  `json:"target,omitempty"`
	Error     *wire.ErrorObject `json:"error,omitempty"`
	// Shard is that of the subscription, of the type of Target.
	Shard   int    `json:"shard,omitempty"`
	Cursor  string `json:"cursor,omitempty"`
	EventID string `json:"eventId,omitempty"`
	// At is when it was ordered: what began later is not meant.
	At time.Time `json:"at,omitzero"`
}

// The kinds of orders. A build passes over those that it does not know.
const (
	orderRevoke     = "revoke"
	orderRecheck    = "recheck"
	orderVisibility = "visibility"
	orderError      = "error"
	orderGap        = "gap"
	orderTerminate  = "terminate"
	orderReopened   = "reopened"
	// Of webhook subscriptions: a record was changed, or the one that delivers is to do something.
	orderSubscription = "subscription"
	orderResume       = "resume"
	orderReplay       = "replay"
	orderAgain        = "again"
)

const (
	// controlAge is how long orders are retained. A process that was not there for so long asks the
	// hooks again for everything instead.
	controlAge   = time.Hour
	controlChunk = 64
	// lookEvery is how old a look at the control log may be before it is looked again, and maxUnheard
	// how old it may be while deliveries begin (REP-11).
	lookEvery  = 500 * time.Millisecond
	maxUnheard = 2 * time.Second
	// orderTime bounds what one order may take: the author's hooks are asked.
	orderTime = time.Minute
)

// A control tells the processes on a shared store of orders, and does those of others. What is lasting
// is a state of the store before its order is told.
type control struct {
	server *Server
	store  engine.Shared
	clock  *storeClock
	wake   topic.Wake
	ctx    context.Context
	stop   context.CancelFunc
	done   chan struct{} // closed when nothing follows the log any more

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

// openControl begins to follow the control log from its present end. What only emits gives orders and follows none.
func openControl(ctx context.Context, s *Server, st engine.Shared, clock *storeClock) (*control, error) {
	c := &control{server: s, store: st, clock: clock, wake: topic.NewWake(),
		own: map[string]struct{}{}, closing: map[string]struct{}{}, done: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if s.options.emitOnly {
		close(c.done)
		return c, nil
	}
	if err := c.open(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("opening the control log: %w", err)
	}
	c.backlog.init(c)
	go c.follow()
	return c, nil
}

// open opens the log at its end, and again after what was done of it.
func (c *control) open(ctx context.Context) error {
	log, err := c.store.OpenLog(ctx, engine.ControlLog, store.LogOptions{MaxAge: controlAge, Appended: func([]store.Entry) { c.wake.Ring() }})
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
	if seen := c.upToNow.Load(); seen != nil {
		if pos, err = before(ctx, log, pos, c.server.now().Add(-time.Since(*seen)-maxUnheard)); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost, c.opened = c.lost || c.opened, true
	c.backlog.begin(pos)
	c.log, c.pos = log, pos
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
func (c *control) at(ctx context.Context) (store.EventLog, store.Position, error) {
	c.mu.Lock()
	log, pos := c.log, c.pos
	c.mu.Unlock()
	if log != nil {
		return log, pos, nil
	}
	if err := c.open(ctx); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log, c.pos, nil
}

func (c *control) shutdown() {
	c.stop()
	<-c.done
	c.backlog.wait()
}

// tell appends an order for the others. Its answer is asked for until ctx ends, as an emit's is. done tells
// that it was done in this process.
func (c *control) tell(ctx context.Context, o order, done bool) (err error) {
	c.clock.refresh(ctx)
	o.At = c.server.now()
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	follows := done && !c.server.options.emitOnly
	if follows {
		c.mu.Lock()
		c.own[id] = struct{}{}
		c.mu.Unlock()
	}
	defer func() {
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.own, id)
		}
	}()
	e := store.Entry{EventID: id, Timestamp: events.NewTime(c.server.now()), Data: data}
	for pause := againPause; ; pause = min(2*pause, maxAgainPause) {
		log, _, err := c.at(ctx)
		if err == nil {
			_, _, err = log.AppendOnce(ctx, e, 0)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrNewEpoch):
			c.renew(log)
		case !errors.Is(err, store.ErrUncertain):
			return fmt.Errorf("telling the other processes: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("telling the other processes: %w", errors.Join(err, ctx.Err()))
		case <-c.ctx.Done():
			return fmt.Errorf("telling the other processes: %w", events.ErrClosed)
		case <-time.After(pause):
		}
	}
}

// renew forgets a log whose epoch is over; it is opened again when it is needed.
func (c *control) renew(old store.EventLog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == old {
		c.log = nil
	}
}

// follow does what others order until the server ends.
func (c *control) follow() {
	defer close(c.done)
	for c.ctx.Err() == nil {
		more, err := c.read()
		switch {
		case c.ctx.Err() != nil:
			return
		case err != nil:
			c.server.log.Internal(c.ctx, "following the control log", err)
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Second):
			}
		case !more:
			select {
			case <-c.ctx.Done():
			case <-c.wake:
			case <-time.After(lookEvery): // a log whose epoch is over tells nobody, nor does a lost notification
			}
		}
	}
}

// read does the next orders.
func (c *control) read() (more bool, err error) {
	log, pos, err := c.at(c.ctx)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	lost := c.lost
	c.lost = false
	c.mu.Unlock()
	if lost {
		c.missed()
	}
	if err := c.recall(); err != nil {
		return false, err
	}
	shared := log.(engine.Log) // open has seen to it
	if time.Since(shared.Seen()) >= lookEvery {
		if _, err := shared.CatchUp(c.ctx, pos+1); errors.Is(err, engine.ErrNewEpoch) {
			c.renew(log)
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	seen := shared.Seen()
	b, err := log.Read(c.ctx, pos, controlChunk)
	if errors.Is(err, engine.ErrNewEpoch) {
		c.renew(log)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if b.Gap {
		c.missed()
		c.advance(log, b.Oldest-1)
	}
	for i := range b.Entries {
		c.take(&b.Entries[i])
		c.advance(log, b.Entries[i].Position)
	}
	if len(b.Entries) == 0 && !b.Gap {
		c.upToNow.Store(&seen)
	}
	return len(b.Entries) > 0, nil
}

// recallLater has the follower read whether the type was terminated, until that succeeds.
func (c *control) recallLater(event string) {
	c.mu.Lock()
	c.closing[event] = struct{}{}
	c.mu.Unlock()
	c.wake.Ring()
}

func (c *control) recall() error {
	c.mu.Lock()
	names := slices.Sorted(maps.Keys(c.closing))
	c.mu.Unlock()
	for _, name := range names {
		c.mu.Lock()
		delete(c.closing, name)
		c.mu.Unlock()
		s := c.server
		s.mu.Lock()
		et := s.types[name]
		s.mu.Unlock()
		if et == nil {
			continue // it is read when the type is registered
		}
		if err := s.recallClosing(c.ctx, et); err != nil {
			c.recallLater(name)
			return err
		}
	}
	return nil
}

func (c *control) advance(of store.EventLog, to store.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == of {
		c.pos = max(c.pos, to)
	}
}

// take takes one order. That a record was changed is heard of at once; what may take its time, since the
// author's hooks are asked, waits in the backlog.
func (c *control) take(e *store.Entry) {
	c.mu.Lock()
	_, own := c.own[e.EventID]
	delete(c.own, e.EventID)
	c.mu.Unlock()
	var o order
	if err := json.Unmarshal(e.Data, &o); err != nil {
		c.server.log.Internal(c.ctx, "reading an order of another process", err)
		return
	}
	if o.Kind == orderSubscription {
		c.backlog.pass(e.Position)
		if o.Target != nil {
			c.server.webhooks.Changed(o.Target.ID, engine.Shard{Topic: o.Target.Event, Number: o.Shard})
		}
		return
	}
	// Own ones were done where they were asked for, and what goes live from now on finds it in the backlog. What went
	// live in between did neither.
	c.backlog.add(placed{e.Position, o}, own)
	if stopped := c.server.stopWebhooks(o); own && stopped > 0 {
		c.backlog.add(placed{e.Position, o}, false)
	}
}

// do does an order.
func (c *control) do(o order) {
	ctx, cancel := context.WithTimeout(c.ctx, orderTime)
	defer cancel()
	if err := c.obey(ctx, o); err != nil {
		c.server.log.Internal(ctx, "doing what another process was asked for", err)
	}
}

// missed makes up for orders that are no longer retained: lasting states are read, and hooks are asked
// for all that is live.
func (c *control) missed() {
	ctx, cancel := context.WithTimeout(c.ctx, orderTime)
	defer cancel()
	s := c.server
	s.mu.Lock()
	order := slices.Clone(s.order)
	s.mu.Unlock()
	for _, et := range order {
		c.recallLater(et.name)
	}
	if err := s.webhooks.Compare(ctx); err != nil {
		s.log.Internal(ctx, "reading the webhook subscriptions again", err)
	}
	c.backlog.tasks.Go(c.recheckAll) // the author's hooks may take their time
}

func (c *control) recheckAll() {
	ctx, cancel := context.WithTimeout(c.ctx, orderTime)
	defer cancel()
	s := c.server
	s.refreshVisibility(ctx)
	for _, st := range s.streamsOf(nil) {
		if e := s.refused(ctx, st.sub.Principal, st.arguments()); e != nil {
			st.end(e)
		}
	}
	if w := s.webhooks; w != nil {
		w.Each(anyWebhook, func(h *subscriber.Live) { w.Recheck(ctx, h) })
	}
}

// obey does the order to what lives in this process.
func (c *control) obey(ctx context.Context, o order) error {
	s := c.server
	a := &admin{s}
	target := operator.Target{}
	if o.Target != nil {
		target = *o.Target
	}
	var err error
	switch o.Kind {
	case orderRevoke:
		s.revokeStreams(ctx, o.Principal, o.Names)
		err = c.orderWebhooks(ctx, o, anyWebhook)
	case orderRecheck:
		s.recheck(ctx, o.Principal, o.Names)
	case orderVisibility:
		s.refreshVisibility(ctx)
	case orderError:
		if e := errorFrom(o.Error); e != nil {
			_, err = a.raiseError(target, e)
		}
	case orderGap:
		_, err = a.raiseGap(ctx, target, target.ID != "") // where it was asked for it may not live
	case orderTerminate, orderReopened:
		if target.ID == "" {
			c.recallLater(target.Event)
			break
		}
		if _, streams, _, findErr := a.find(target); findErr == nil {
			a.end(streams, nil, errorFrom(o.Error))
		}
		err = c.orderWebhooks(ctx, o, anyWebhook)
	case orderResume, orderReplay, orderAgain:
		err = c.orderWebhooks(ctx, o, anyWebhook)
	}
	if errors.Is(err, events.ErrNotFound) {
		return nil // it lives elsewhere
	}
	return err
}

// objectOf and errorFrom carry an error between processes.
func objectOf(e *events.Error) *wire.ErrorObject {
	return &wire.ErrorObject{Code: wire.SEP.Code(e.Kind), Message: e.Kind.String(), Data: e.Data}
}

func errorFrom(o *wire.ErrorObject) *events.Error {
	if o == nil {
		return nil
	}
	kind, _, ok := wire.KindOf(o.Code, o.Message)
	if !ok {
		kind = wire.Internal
	}
	return &events.Error{Kind: kind, Data: o.Data}
}
