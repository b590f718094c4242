package feed

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Source reads the results of a check, and then the emitted occurrences if the type also has an emitter, for one
// stream or webhook subscription. It never waits for the check: the feed calls the check and rings the bell.
type Source struct {
	stepWalk
	seat    Seat
	f       *feed
	call    *call        // that the source waits for, or nil
	emits   bool         // the type has an emitter
	emit    topic.Reader // of the type's log, if emits
	release func()       // decrements the principal's number of readers
}

// newSource returns a source without a position.
func newSource(at Seat, u *upstream, release func()) *Source {
	f := u.acquireFeed()
	return &Source{seat: at, f: f, release: release, emits: u.check.Emits, stepWalk: stepWalk{u: f.upstream, id: at.ID, cursors: true}}
}

// start determines the start: place, or the upstream's head if place is nil.
func (s *Source) start(ctx context.Context, place *checkpoint, w topic.Replay, later bool) (truncated bool, err error) {
	if place == nil {
		s.at, s.last, err = s.f.current(ctx, s.seat.Principal)
		return false, err
	}
	s.at, s.last = *place, s.u.cursorOf(*place)
	if later {
		return false, nil
	}
	found, from, text, err := s.u.replayFrom(ctx, *place, w.MaxAge, s.f.awaitFor(s.seat.Principal))
	if err != nil {
		return false, ctx.Err() // if ctx is not done, Pull repeats the call and reports its failure
	}
	s.at, s.last = from, text
	s.setStep(&found)
	return found.truncated, nil
}

// Pull implements [topic.Source].
func (s *Source) Pull(ctx context.Context, into []topic.Outcome) (p topic.Pulled, err error) {
	p.Out = into
	waiting := false
	if len(s.backlog) == 0 {
		if waiting = !s.take(&p); p.Gap {
			return p, nil
		}
	}
	b := topic.Batch(topic.PullBatch)
	b.Scan = topic.PullBatch
	if p.Out, _, err = s.readMatching(ctx, into, b); err != nil {
		return p, err
	}
	p.More = !waiting
	if !s.emits {
		return p, nil
	}
	for i := len(into); i < len(p.Out); i++ {
		if o := p.Out[i]; o.Err() == nil {
			p.Out[i] = o.WithCursor(encodeCombinedCursor(s.emit.Place(), o.Entry().Cursor))
		}
	}
	return s.pullEmitted(ctx, p)
}

// take takes the result of the call at the source's position. It returns false if the call has not returned.
func (s *Source) take(p *topic.Pulled) bool {
	c, returned := s.call, false
	if c == nil {
		c, returned = s.f.call(s.at, s.seat, false)
	} else {
		returned = s.f.hasReturned(c)
	}
	if s.call = c; !returned {
		return false
	}
	s.call = nil
	switch {
	case errors.Is(c.err, errCanceled):
		return false // the type has changed: Rebind follows
	case c.err != nil:
		p.Failed = append(p.Failed, c.err)
	default:
		s.setStep(&c.step)
		p.Gap, p.More = c.step.truncated, c.step.truncated
	}
	return true
}

// pullEmitted adds the emitted occurrences that the check has not found.
func (s *Source) pullEmitted(ctx context.Context, p topic.Pulled) (topic.Pulled, error) {
	n := len(p.Out)
	e, err := s.emit.Pull(ctx, p.Out)
	p.Out, p.More, p.Gap = e.Out[:n], p.More || e.More, e.Gap
	for _, o := range e.Out[n:] {
		if s.seat.Feeds.deliversFromEmit(s.u.hash, o.Entry().EventID) {
			p.Out = append(p.Out, o.WithCursor(encodeCombinedCursor(s.emit.PlaceAfter(o.Entry()), s.last)))
		}
	}
	return p, err
}

// Park implements [topic.Source]. The return of the call or an emit ends the wait.
func (s *Source) Park() bool { return !s.emits || s.emit.Park() }

// Unpark implements [topic.Source].
func (s *Source) Unpark() store.Position {
	if !s.emits {
		return 0
	}
	return s.emit.Unpark()
}

// Cursor implements [topic.Source].
func (s *Source) Cursor() []byte {
	if !s.emits {
		return frame.AppendString(nil, s.last)
	}
	return encodeCombinedCursor(s.emit.Place(), s.last)
}

// Rebind switches to the check and arguments of another definition. It keeps the cursor and does not call the check.
func (s *Source) Rebind(c *Check, a *topic.Arguments) error {
	place, ok := s.u.parseCheckpoint(s.last)
	if !ok {
		return errors.New("the feed's cursor cannot be read back")
	}
	release, err := s.seat.Feeds.addReader(s.seat.Principal, a, true)
	if err != nil {
		return err
	}
	fresh := newSource(s.seat, s.seat.Feeds.upstream(c, a, s.seat.Principal), release)
	fresh.at, fresh.last = place, fresh.u.cursorOf(place)
	s.closeFeed()
	if fresh.emit = s.emit; s.emits {
		fresh.emit.Rebind(a)
	}
	*s = *fresh
	return nil
}

// Close releases all resources.
func (s *Source) Close() {
	if s.emits {
		s.emit.Close()
	}
	s.closeFeed()
}

// closeFeed releases the feed and the principal's slot for a reader.
func (s *Source) closeFeed() {
	if s.call != nil {
		s.f.leave(s.call, s.seat.Bell)
	}
	s.f.release()
	s.release()
}
