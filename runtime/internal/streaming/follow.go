package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A Follower implements [port.Follower] with a stream that has no carrier.
type Follower struct {
	st     *Stream
	run    run
	cancel context.CancelFunc
	next   sync.Mutex // held by Next
	lost   bool       // Next must report a gap first; guarded by next
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	passed string
}

// Follow opens a follower. It does not count toward the principal's limits (PUSH-10). By default it starts at the head,
// determined after the hooks have run. The adapter must call Close.
func (s *Streams) Follow(ctx context.Context, r Request) (*Follower, error) {
	st := s.stream(&r)
	if err := s.admit(ctx, st, r.Type.Head, r.Replay); err != nil {
		return nil, err
	}
	f := &Follower{st: st, lost: st.truncated, closed: make(chan struct{})}
	hooks, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	f.run = run{st: st, ctx: hooks, hooks: hooks}
	if every := s.o.Reauthorize; every > 0 {
		f.run.nextAuth = time.Now().Add(every)
	}
	st.mu.Lock()
	st.running, st.cancel = true, cancel
	st.mu.Unlock()
	f.pass(f.cursor())
	return f, nil
}

// Passed implements [port.Follower].
func (f *Follower) Passed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

func (f *Follower) pass(cursor string) {
	f.st.wrote()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed = cursor
}

func (f *Follower) cursor() (text string) {
	_ = json.Unmarshal(f.st.reader.Cursor(), &text)
	return text
}

// Next implements [port.Follower].
func (f *Follower) Next(ctx context.Context) (port.Followed, error) {
	f.next.Lock()
	defer f.next.Unlock()
	var found port.Followed
	var err error
	topic.Loop{Source: f.st.reader, Wake: f.st.wake, Stop: f.closed}.Run(ctx, func() (topic.Turn, time.Time) {
		if err = f.endError(ctx); err != nil {
			return topic.Over, time.Time{}
		}
		if !f.run.checkState(time.Now()) {
			return topic.Again, time.Time{}
		}
		if f.run.mayWrite() {
			if found = f.pull(); len(found.Occurrences) > 0 || found.Gap {
				f.pass(found.Cursor)
				return topic.Over, time.Time{}
			}
		}
		return f.run.rest()
	})
	if err != nil {
		return port.Followed{}, err
	}
	return found, nil
}

// endError returns the error for a follower that has ended, or nil if Next can continue.
func (f *Follower) endError(ctx context.Context) error {
	if ended, reason := f.st.outcome(); ended {
		if reason != nil {
			return reason
		}
		return events.ErrClosed
	}
	select {
	case <-f.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// pull reads once.
func (f *Follower) pull() (found port.Followed) {
	st := f.st
	p := f.run.read()
	for i := range p.Out {
		o := &p.Out[i]
		if o.Err() != nil {
			st.of.o.Log.Internal(f.run.hooks, "following "+st.sub.Event, fault.Unseen{Err: o.Err()})
			continue
		}
		e := o.Entry()
		found.Occurrences = append(found.Occurrences, events.Occurrence{ID: e.EventID, Name: st.sub.Event, Timestamp: e.Timestamp, Raw: o.Data(), Meta: e.Meta})
	}
	clear(f.run.outcomes)
	found.Gap, found.Cursor = f.lost, f.cursor()
	if f.lost = p.Gap; len(found.Occurrences) == 0 {
		found.Gap, f.lost = found.Gap || p.Gap, false
	}
	return found
}

// Close implements [port.Follower].
func (f *Follower) Close() {
	f.once.Do(func() {
		close(f.closed)
		f.cancel()
		f.next.Lock() // wait until Next no longer uses the reader
		defer f.next.Unlock()
		f.st.release(true)
	})
}

// errClosed is returned by Next after the adapter has closed the follower.
var errClosed = errors.New("the follower is closed")
