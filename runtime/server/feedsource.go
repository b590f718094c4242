package server

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A seat is what a source knows of the subscription that it reads for.
type seat struct {
	et   *eventType
	sub  Subscription
	wake chan struct{}
	bell ringer // see reader
}

func (s *seat) reader(t *topic, a *arguments) reader {
	return reader{topic: t, args: a, id: s.sub.ID, wake: s.wake, bell: s.bell, slot: -1}
}

// A feedSource is a subscription's reader of a check. Joined, it reads the feed's log. Behind the
// log (or ahead of it) it asks the upstream itself, page by page, until it meets the log.
type feedSource struct {
	seat seat
	f    *feed
	reader
	joined bool
	last   string // cursor of what is passed

	// While not joined:
	at      checkpoint
	backlog []store.Entry // after last, before at's step is done
	after   checkpoint    // of the backlog
	next    time.Time     // of the next question
	backoff time.Duration

	failures, gaps uint64 // told to the subscription
}

// openFeed finds a subscription's start in the feed of its arguments.
func openFeed(ctx context.Context, at seat, a *arguments, head store.Position, w replay) (source, bool, error) {
	u := newUpstream(at.et, a, at.sub.Principal)
	f := u.acquireFeed()
	src := &feedSource{seat: at, f: f, reader: at.reader(f.topic, a)}
	w, place, stale := u.wish(w)
	truncated, err := src.start(ctx, place, w)
	if err != nil {
		src.f.release()
		return nil, false, err
	}
	if !a.def.emits {
		return src, truncated || stale, nil
	}
	both, lost, err := openBoth(ctx, src, head, w)
	if err != nil {
		src.close()
		return nil, false, err
	}
	return both, truncated || stale || lost, nil
}

// wish splits a request's cursor: an upstream place, nil for now; stale when the cursor is none of
// this feed's.
func (u *upstream) wish(w replay) (_ replay, place *checkpoint, stale bool) {
	if w.cursor == nil {
		return w, nil, false
	}
	c, ok := u.parse(*w.cursor)
	if !ok {
		w.cursor = nil
		return w, nil, true
	}
	return w, &checkpoint{c.Upstream, c.Offset}, false
}

// start places the reader; one stream of the feed at a time.
func (s *feedSource) start(ctx context.Context, place *checkpoint, w replay) (truncated bool, err error) {
	f := s.f
	select {
	case f.gate <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-f.gate }()
	s.failures, s.gaps, _ = f.state()
	f.mu.Lock()
	live, head, headPos := f.live, f.head, f.headPos
	f.mu.Unlock()
	if place == nil {
		if live {
			s.joined, s.pos, s.last = true, headPos, head
			return false, nil
		}
		now, wait, err := f.now(ctx)
		if err != nil {
			return false, err
		}
		if wait <= 0 {
			wait = f.args.def.options.nextPoll
		}
		s.joined, s.last = true, f.text(now)
		f.goLive(now, s.last, nil, wait)
		return false, nil
	}
	s.last, s.at = f.text(*place), *place
	if live {
		if pos, ok := f.find(s.last); ok {
			s.joined, s.pos = true, pos
			return s.skipOld(ctx, w)
		}
	}
	if w.later {
		if s.joined = !live; s.joined {
			f.goLive(*place, s.last, nil, 0)
		}
		return false, nil
	}
	found, from, text, err := f.replayFrom(ctx, *place, w.maxAge)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && live:
		return false, nil // told and tried again by pull
	case err != nil:
		s.joined = true
		f.goLive(*place, s.last, nil, 0) // told and tried again by the loop
		return false, nil
	}
	truncated = found.truncated
	s.last = text
	if !live {
		found.truncated = false // told by this stream's active
		wait := found.nextPoll
		if wait <= 0 {
			wait = f.args.def.options.nextPoll
		}
		if found.more {
			wait = 0
		}
		s.joined = true
		f.goLive(from, text, &found, wait)
		return truncated, nil
	}
	s.at, s.backlog, s.after = from, found.entries, found.next
	if len(s.backlog) == 0 {
		s.at = found.next
	}
	return truncated, nil
}

// skipOld passes over entries of the feed's log that are too old to be replayed.
func (s *feedSource) skipOld(ctx context.Context, w replay) (truncated bool, err error) {
	limit, ok := replayLimit(s.args.def, w.maxAge)
	if !ok {
		return false, nil
	}
	_, head, _ := s.f.topic.log.Bounds(ctx) // a memory log never fails
	pos, err := firstSince(ctx, s.f.topic, s.pos, head, limit)
	if err != nil || pos == s.pos {
		return false, err
	}
	s.pos = pos
	s.note()
	return true, nil
}

// note updates last after pos moved.
func (s *feedSource) note() {
	if c, ok := s.f.cursorAt(s.pos); ok {
		s.last = c
	}
}

func (s *feedSource) pull(ctx context.Context, into []outcome) (pulled, error) {
	var p pulled
	failures, gaps, failure := s.f.state()
	if s.joined && failures != s.failures {
		p.failed = append(p.failed, failure)
	}
	s.failures = failures
	if gaps != s.gaps {
		s.gaps = gaps
		if s.joined {
			p.out, p.gap, p.more = into, true, true
			return p, nil
		}
	}
	if !s.joined {
		return s.catchUp(ctx, into, p)
	}
	got, err := s.reader.next(ctx, into, pullBatch, 16*readChunk)
	p.pull = got
	if got.gap {
		// The log has moved on; the upstream still knows.
		p.gap = false
		s.leaveLog()
	} else if s.joined {
		s.note()
	}
	return p, err
}

// leaveLog goes on from last by asking the upstream.
func (s *feedSource) leaveLog() {
	s.f.topic.detach(&s.reader)
	s.joined, s.backlog, s.next, s.backoff = false, nil, time.Time{}, 0
	if c, ok := s.f.parseOwn(s.last); ok {
		s.at, s.after = c, c
	}
}

// parseOwn reads a cursor that text made.
func (u *upstream) parseOwn(text string) (checkpoint, bool) {
	c, err := parseCheckCursor(text)
	return checkpoint{c.Upstream, c.Offset}, err == nil
}

// catchUp reads the backlog and asks for more until the feed's log is met.
func (s *feedSource) catchUp(ctx context.Context, into []outcome, p pulled) (pulled, error) {
	p.out = into
	if len(s.backlog) == 0 {
		if s.meet("") {
			p.more = true
			return p, nil
		}
		if rest := time.Until(s.next); rest > 0 {
			p.retry = rest
			return p, nil
		}
		found, err := s.f.step(ctx, s.at)
		if err != nil {
			if ctx.Err() != nil {
				return p, ctx.Err()
			}
			interval := s.args.def.options.nextPoll
			s.backoff = min(max(2*s.backoff, interval), max(maxBackoff, interval))
			s.next = time.Now().Add(s.backoff)
			p.failed, p.retry = append(p.failed, err), s.backoff
			return p, nil
		}
		s.backoff = 0
		p.gap = found.truncated
		s.backlog, s.after = found.entries, found.next
		if len(s.backlog) == 0 {
			s.at = found.next
			s.last = s.f.text(found.next)
			if !found.more && !s.meet("") {
				// The loop has not come as far as this stream's cursor: let it.
				s.f.checkNow()
				s.next = time.Now().Add(max(found.nextPoll, s.args.def.options.nextPoll/8))
			}
		}
		p.more = true
		return p, nil
	}
	n := 0
	for size := 0; n < min(len(s.backlog), pullBatch) && size < pullBytes; n++ {
		e := s.backlog[n]
		rec := newRecord(s.args.def, e, appendString(nil, e.Cursor))
		o, ok, err := consider(ctx, rec, s.args, s.id)
		if err != nil {
			s.backlog = s.backlog[n:]
			return p, err
		}
		if ok {
			p.out = append(p.out, o)
			size += o.size()
		}
		s.last = e.Cursor
	}
	id := s.backlog[n-1].EventID
	if s.backlog = s.backlog[n:]; len(s.backlog) == 0 {
		s.at = s.after
		s.meet(id)
	}
	p.more = true
	return p, nil
}

// meet joins the feed's log where it has the reader's cursor, or the event that was passed last.
func (s *feedSource) meet(eventID string) bool {
	pos, ok := s.f.find(s.f.text(s.at))
	if !ok && eventID != "" {
		pos, ok = s.f.positionOf(eventID)
	}
	if !ok {
		return false
	}
	s.joined, s.pos, s.backlog = true, pos, nil
	s.note()
	return true
}

func (s *feedSource) park() bool {
	if !s.joined {
		return true // pull has said when to come back
	}
	if !s.topic.park(&s.reader) {
		return false
	}
	// What was signalled before the reader was in the index is still to be told.
	if failures, gaps, _ := s.f.state(); failures != s.failures || gaps != s.gaps {
		s.unpark()
		return false
	}
	return true
}

func (s *feedSource) unpark() {
	if s.joined {
		s.topic.unpark(&s.reader)
		s.note()
	}
}

func (s *feedSource) cursor() []byte { return appendString(nil, s.last) }

// rebind moves to the feed of the new definition, from the same cursor.
func (s *feedSource) rebind(ctx context.Context, a *arguments) error {
	place, ok := s.f.parseOwn(s.last)
	if !ok {
		return errors.New("the feed's cursor cannot be read back")
	}
	f := newUpstream(s.seat.et, a, s.seat.sub.Principal).acquireFeed()
	fresh := &feedSource{seat: s.seat, f: f, reader: s.seat.reader(f.topic, a)}
	if _, err := fresh.start(ctx, &place, replay{}); err != nil {
		fresh.f.release()
		return err
	}
	s.close()
	*s = *fresh
	return nil
}

func (s *feedSource) close() {
	s.f.topic.detach(&s.reader)
	s.f.release()
}
