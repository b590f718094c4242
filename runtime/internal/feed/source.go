package feed

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A Source reads the results of a check, and then the emitted occurrences if the type also has an emitter, for one
// stream or webhook subscription. It never waits for the check: the feed calls the check and rings the bell.
type Source struct {
	reader
	f    *feed
	call *call // that the source waits for, or nil
}

// joinFeed makes the source use the feed of its upstream.
func (s *Source) joinFeed() {
	s.f = s.u.acquireFeed()
	s.u, s.cursors = s.f.upstream, true
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

// Next returns the occurrences that are ready, up to the bound. It stops at a gap.
func (s *Source) Next(ctx context.Context, into []topic.Outcome, b topic.Bound) (p topic.Pulled, err error) {
	p.Out = into
	waiting := false
	if len(s.backlog) == 0 {
		if waiting = !s.take(&p); p.Gap {
			return p, nil
		}
	}
	scan := min(b.Scan, topic.PullBatch)
	if p.Out, _, err = s.readMatching(ctx, into, topic.Bound{Outcomes: b.Outcomes, Bytes: b.Bytes, Scan: scan}); err != nil {
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
	n := len(p.Out)
	e, err := s.emit.Next(ctx, p.Out, b)
	for i := range e.Out[n:] {
		o := &e.Out[n+i]
		*o = o.WithCursor(encodeCombinedCursor(s.emit.PlaceAfter(o.Entry()), s.last))
	}
	p.Out, p.More, p.Gap = e.Out, p.More || e.More, e.Gap
	return p, err
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

// Rebind switches to the check and arguments of another definition. It keeps the cursor and does not call the check.
func (s *Source) Rebind(c *Check, a *topic.Arguments) {
	s.leaveFeed()
	s.reader.Rebind(c, a)
	s.joinFeed()
}

// Close releases all resources.
func (s *Source) Close() {
	s.leaveFeed()
	s.reader.Close()
}

// leaveFeed stops using the feed.
func (s *Source) leaveFeed() {
	if s.call != nil {
		s.f.leave(s.call, s.seat.Bell)
		s.call = nil
	}
	s.f.release()
}
