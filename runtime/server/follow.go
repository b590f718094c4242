package server

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A FollowRequest says what an adapter wants to read. For adapters.
type FollowRequest struct {
	// Event is the event type's name.
	Event string
	// Principal is who the adapter reads for: visibility, authorization, checks and hooks see it.
	Principal string
	// Mode is what hooks find in [Subscription.Mode]: the adapter's name.
	Mode string
	// Arguments are the subscription arguments; nil stands for none.
	Arguments json.RawMessage
	// Cursor is where to begin; nil stands for the moment of the call.
	Cursor *string
}

// Followed is what [Follower.Next] found. For adapters.
type Followed struct {
	// Occurrences are in order, after the author's Match and Transform. Their Cursor is empty.
	Occurrences []events.Occurrence
	// Gap tells that occurrences before these were lost (PUSH-7).
	Gap bool
	// Cursor is the position after Occurrences; "" for a type without cursors.
	Cursor string
}

// A Follower reads one event type for an adapter, as a push subscription does for a client: it is
// in [Server.Subscriptions], hooks hear of it, and what ends a stream ends it (AUTH-2, EVOL-1).
// Its methods are for one goroutine, but Close is for any.
type Follower struct {
	st     *Stream
	run    run
	cancel context.CancelFunc
	next   sync.Mutex // held by Next
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	passed string
}

// Follow opens a follower after the checks that events/stream makes. Errors are [events.Error]s or
// internal. The adapter calls Close. For adapters.
func (s *Server) Follow(ctx context.Context, r FollowRequest) (*Follower, error) {
	ctx = hook.WithPrincipal(ctx, r.Principal)
	et, d, err := s.lookup(ctx, r.Principal, r.Event)
	if err != nil {
		return nil, err
	}
	if e := et.refuses(); e != nil {
		return nil, e
	}
	a, err := d.parse(r.Arguments)
	if err != nil {
		return nil, err
	}
	if err := s.authorized(ctx, r.Principal, a); err != nil {
		return nil, err
	}
	st := &Stream{server: s, et: et, sub: identity(r.Mode, r.Principal, a), noSlot: true, args: a, wake: topic.NewWake()}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errShuttingDown
	}
	s.running.Add(1)
	s.streams[st] = struct{}{}
	s.mu.Unlock()
	if err := s.members.join(ctx, st.sub, a); err != nil {
		st.release(false)
		return nil, asRefusal(err)
	}
	head := et.head()
	if err := st.position(ctx, a, head, topic.ReplayOf(r.Cursor, nil)); err != nil {
		st.release(true)
		return nil, err
	}
	f := &Follower{st: st, closed: make(chan struct{})}
	hooks, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	f.run = run{st: st, ctx: hooks, hooks: hooks}
	if every := s.options.Reauthorize; every > 0 {
		f.run.nextAuth = time.Now().Add(every)
	}
	st.mu.Lock()
	st.running, st.cancel = true, cancel
	st.mu.Unlock()
	f.pass(f.cursor())
	return f, nil
}

func (et *eventType) head() (head store.Position) {
	if et.topic != nil {
		_, head = et.topic.Bounds()
	}
	return head
}

// Passed returns the cursor after what Next has returned so far, at first that of the beginning; ""
// for a type without cursors. It may be called while Next runs.
func (f *Follower) Passed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

func (f *Follower) pass(cursor string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed = cursor
}

func (f *Follower) cursor() (text string) {
	_ = json.Unmarshal(f.st.source.Cursor(), &text)
	return text
}

// Next waits for occurrences or a gap. It returns ctx's error when ctx ends, and the reason when
// the subscription is over: an [events.Error], or [events.ErrClosed] when the server shuts down or
// Close was called. What goes wrong upstream or with a single occurrence is logged.
func (f *Follower) Next(ctx context.Context) (Followed, error) {
	f.next.Lock()
	defer f.next.Unlock()
	var found Followed
	var err error
	loop{source: f.st.source, wake: f.st.wake, stop: f.closed}.run(ctx, func() (turn, time.Time) {
		if err = f.ended(ctx); err != nil {
			return over, time.Time{}
		}
		if !f.run.circumstances(time.Now()) {
			return again, time.Time{}
		}
		var more bool
		var wait time.Duration
		if found, more, wait = f.pull(); len(found.Occurrences) > 0 || found.Gap {
			f.pass(found.Cursor)
			return over, time.Time{}
		}
		until := f.run.nextAuth
		if until.IsZero() {
			until = time.Now().Add(time.Hour)
		}
		switch {
		case more:
			return again, time.Time{}
		case wait == 0:
			return rest, until
		}
		if at := time.Now().Add(wait); at.Before(until) {
			until = at
		}
		return pause, until
	})
	if err != nil {
		return Followed{}, err
	}
	return found, nil
}

// ended is why there is nothing more to read for Next.
func (f *Follower) ended(ctx context.Context) error {
	if ended, reason := f.st.outcome(); ended {
		if reason != nil {
			return reason
		}
		return events.ErrClosed
	}
	select {
	case <-f.closed:
		return errFollowerClosed
	default:
		return ctx.Err()
	}
}

// pull makes one pass over the source. wait is how long to leave it alone after a failure.
func (f *Follower) pull() (found Followed, more bool, wait time.Duration) {
	st := f.st
	p, err := st.source.Pull(f.run.hooks, f.run.outcomes[:0])
	f.run.outcomes = p.Out
	for i := range p.Out {
		o := &p.Out[i]
		if o.Err() != nil {
			st.server.log.Internal(f.run.hooks, "following "+st.sub.Event, fault.Unseen{Err: o.Err()})
			continue
		}
		e := o.Entry()
		found.Occurrences = append(found.Occurrences, events.Occurrence{ID: e.EventID, Name: st.sub.Event, Timestamp: e.Timestamp, Raw: o.Data(), Meta: e.Meta})
	}
	clear(f.run.outcomes)
	for _, failed := range p.Failed {
		st.server.log.Internal(f.run.hooks, "checking "+st.sub.Event, failed)
	}
	found.Gap, found.Cursor = p.Gap, f.cursor()
	if err != nil && f.run.hooks.Err() == nil {
		st.server.log.Internal(f.run.hooks, "reading "+st.sub.Event, err)
		return found, false, retryRead
	}
	return found, p.More || err != nil, p.Retry
}

// Close ends the subscription. It may be called more than once, also while Next runs.
func (f *Follower) Close() {
	f.once.Do(func() {
		close(f.closed)
		f.cancel()
		f.next.Lock() // Next has left the source
		defer f.next.Unlock()
		f.st.release(true)
	})
}
