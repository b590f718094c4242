package feed

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A feedSource reads the results of a check for one subscription. After it has joined the feed, it reads the feed's
// log. Before that, its position is outside the log, and it calls the check itself.
type feedSource struct {
	seat   Seat
	f      *feed
	reader topic.Reader // of the feed's log
	joined bool

	stepWalk           // its last cursor is also used while joined
	next     time.Time // time of the next call, while not joined
	backoff  time.Duration

	failures, gaps uint64 // already reported to the subscription
	release        func() // decrements the principal's number of readers
}

func newSource(at Seat, u *upstream, release func()) *feedSource {
	f := u.acquireFeed()
	return &feedSource{seat: at, f: f, release: release, reader: f.topic.Reader(u.args, at.ID, at.Bell, 0), stepWalk: stepWalk{u: f.upstream, id: at.ID, cursors: true}}
}

// start determines the reader's start. Only one stream of the feed can execute it at a time.
func (s *feedSource) start(ctx context.Context, place *checkpoint, w topic.Replay, later bool) (truncated bool, err error) {
	f := s.f
	select {
	case f.gate <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-f.gate }()
	s.failures, s.gaps, _ = f.counters()
	f.mu.Lock()
	live, head, headPos := f.live, f.head, f.headPos
	f.mu.Unlock()
	if place == nil {
		if live {
			s.joinLog(headPos)
			s.last = head
			return false, nil
		}
		now, wait, err := f.fetchHead(ctx)
		if err != nil {
			return false, err
		}
		if wait <= 0 {
			wait = f.check.Interval
		}
		s.joined, s.last = true, f.cursorOf(now)
		f.startLoop(now, s.last, nil, wait)
		return false, nil
	}
	s.last, s.at = f.cursorOf(*place), *place
	if live {
		if pos, ok := f.positionAfter(s.last); ok {
			s.joinLog(pos)
			return s.skipOld(ctx, w)
		}
	}
	if later {
		if s.joined = !live; s.joined {
			f.startLoop(*place, s.last, nil, 0)
		}
		return false, nil
	}
	found, from, text, err := f.replayFrom(ctx, *place, w.MaxAge)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && live:
		return false, nil // pull reports it and retries
	case err != nil:
		s.joined = true
		f.startLoop(*place, s.last, nil, 0) // the loop reports it and retries
		return false, nil
	}
	truncated = found.truncated
	s.last = text
	if !live {
		found.truncated = false // this stream's active message reports it
		wait := found.nextPoll
		if wait <= 0 {
			wait = f.check.Interval
		}
		if found.more {
			wait = 0
		}
		s.joined = true
		f.startLoop(from, text, &found, wait)
		return truncated, nil
	}
	s.at, s.backlog, s.after = from, found.entries, found.next
	if len(s.backlog) == 0 {
		s.at = found.next
	}
	return truncated, nil
}

// skipOld skips entries in the feed's log that are too old to replay.
func (s *feedSource) skipOld(ctx context.Context, w topic.Replay) (truncated bool, err error) {
	limit, ok := topic.ReplayLimit(s.f.args.Of, w.MaxAge)
	if !ok {
		return false, nil
	}
	_, head, _ := s.f.log.Bounds(ctx) // a memory log never fails
	pos, err := s.f.topic.FirstSince(ctx, s.reader.Position(), head, limit)
	if err != nil || pos == s.reader.Position() {
		return false, err
	}
	s.reader.Skip(pos)
	s.updateLast()
	return true, nil
}

// updateLast sets last to the cursor of the current position.
func (s *feedSource) updateLast() {
	if c, ok := s.f.cursorAt(s.reader.Position()); ok {
		s.last = c
	}
}

func (s *feedSource) Pull(ctx context.Context, into []topic.Outcome) (topic.Pulled, error) {
	var p topic.Pulled
	failures, gaps, failure := s.f.counters()
	if s.joined && failures != s.failures {
		p.Failed = append(p.Failed, failure)
	}
	s.failures = failures
	if gaps != s.gaps {
		s.gaps = gaps
		if s.joined {
			p.Out, p.Gap, p.More = into, true, true
			return p, nil
		}
	}
	if !s.joined {
		return s.catchUp(ctx, into, p)
	}
	got, err := s.reader.Pull(ctx, into)
	got.Failed = p.Failed
	p = got
	if got.Gap {
		// The log evicted the entries; the upstream still has them.
		p.Gap = false
		s.leaveLog()
	} else if s.joined {
		s.updateLast()
	}
	return p, err
}

// leaveLog stops reading the feed's log and continues from last by calling the check.
func (s *feedSource) leaveLog() {
	s.reader.Close()
	s.joined, s.backlog, s.next, s.backoff = false, nil, time.Time{}, 0
	if c, ok := s.f.parseCheckpoint(s.last); ok {
		s.at, s.after = c, c
	}
}

// catchUp reads the backlog and then fetches entries until it reaches the feed's log.
func (s *feedSource) catchUp(ctx context.Context, into []topic.Outcome, p topic.Pulled) (topic.Pulled, error) {
	p.Out = into
	if len(s.backlog) == 0 {
		if s.tryJoin("") {
			p.More = true
			return p, nil
		}
		if rest := time.Until(s.next); rest > 0 {
			p.Retry = rest
			return p, nil
		}
		return s.fetchNext(ctx, p)
	}
	b := topic.Batch(topic.PullBatch)
	b.Scan = topic.PullBatch
	out, done, err := s.readMatching(ctx, into, b)
	p.Out = out
	if err != nil {
		return p, err
	}
	if done {
		s.tryJoin(s.lastID)
	}
	p.More = true
	return p, nil
}

// fetchNext calls the check for the next step.
func (s *feedSource) fetchNext(ctx context.Context, p topic.Pulled) (topic.Pulled, error) {
	found, err := s.f.fetchStep(ctx, s.at)
	if err != nil {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		interval := s.f.check.Interval
		s.backoff = min(max(2*s.backoff, interval), max(maxBackoff, interval))
		s.next = time.Now().Add(s.backoff)
		p.Failed, p.Retry = append(p.Failed, err), s.backoff
		return p, nil
	}
	s.backoff = 0
	p.Gap, p.More = found.truncated, true
	s.setStep(&found)
	if len(s.backlog) == 0 && !found.more && !s.tryJoin("") {
		// The loop has not reached this stream's cursor: trigger it.
		s.f.checkNow()
		s.next = time.Now().Add(max(found.nextPoll, s.f.check.Interval/8))
	}
	return p, nil
}

// joinLog switches the source to the feed's log, which it reads from the position after pos.
func (s *feedSource) joinLog(pos store.Position) {
	s.joined, s.backlog = true, nil
	s.reader.Skip(pos)
}

// tryJoin joins the feed's log if the log contains the reader's cursor or the given eventId.
func (s *feedSource) tryJoin(eventID string) bool {
	pos, ok := s.f.positionAfter(s.f.cursorOf(s.at))
	if !ok && eventID != "" {
		pos, ok = s.f.positionOf(eventID)
	}
	if !ok {
		return false
	}
	s.joinLog(pos)
	s.updateLast()
	return true
}

// Park implements [topic.Source].
func (s *feedSource) Park() bool {
	if !s.joined {
		return true // Pull has already returned the retry delay
	}
	if !s.reader.Park() {
		return false
	}
	// Failures and gaps that occurred before the reader was added to the index must still be reported.
	if failures, gaps, _ := s.f.counters(); failures != s.failures || gaps != s.gaps {
		s.Unpark()
		return false
	}
	return true
}

// Unpark implements [topic.Source].
func (s *feedSource) Unpark() store.Position {
	if s.joined {
		s.reader.Unpark()
		s.updateLast()
	}
	return 0
}

// Asks implements [Source].
func (s *feedSource) Asks() bool { return !s.joined }

// Cursor implements [topic.Source].
func (s *feedSource) Cursor() []byte { return frame.AppendString(nil, s.last) }

// Rebind implements [Source].
func (s *feedSource) Rebind(ctx context.Context, c *Check, a *topic.Arguments) error {
	place, ok := s.f.parseCheckpoint(s.last)
	if !ok {
		return errors.New("the feed's cursor cannot be read back")
	}
	release, err := s.seat.Feeds.addReader(s.seat.Principal, a, true)
	if err != nil {
		return err
	}
	fresh := newSource(s.seat, s.seat.Feeds.upstream(c, a, s.seat.Principal), release)
	if _, err := fresh.start(ctx, &place, topic.Replay{}, false); err != nil {
		fresh.releaseFeed()
		return err
	}
	s.Close()
	*s = *fresh
	return nil
}

// Close implements [topic.Source].
func (s *feedSource) Close() {
	s.reader.Close()
	s.releaseFeed()
}

// releaseFeed releases the feed and the principal's slot for a reader.
func (s *feedSource) releaseFeed() {
	s.f.release()
	s.release()
}
