package server

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// pollCheck answers a poll of a check: the cursor says where to ask, nothing is remembered. For a
// type with both sources the type's log is read after it.
func (s *Server) pollCheck(ctx context.Context, q *pollRequest) (*pollAnswer, error) {
	p := &checkPoll{s: s, q: q, room: q.bytes, u: newUpstream(q.et, q.args, q.sub.Principal)}
	w, place, stale := p.u.wish(q.replay)
	p.a.truncated = stale
	if q.args.def.emits {
		from, err := resolveBoth(ctx, q.et.topic, q.args.def, q.head, w)
		if err != nil {
			return nil, err
		}
		p.a.truncated = p.a.truncated || from.truncated
		p.emit = &reader{topic: q.et.topic, args: q.args, id: q.sub.ID, pos: from.pos, slot: -1}
	}
	if place == nil {
		now, wait, err := p.u.now(ctx)
		if err != nil {
			return nil, err
		}
		p.a.nextPoll = wait
		p.last = p.u.text(now)
	} else if err := p.read(ctx, *place, w); err != nil {
		return nil, err
	}
	p.a.cursor = p.cursor()
	return &p.a, nil
}

// A checkPoll is the state of one poll of a check.
type checkPoll struct {
	s    *Server
	q    *pollRequest
	u    *upstream
	emit *reader // of the type's log; nil without one
	room int     // bytes that are left for occurrences
	a    pollAnswer
	last string // cursor of what is passed upstream
}

func (p *checkPoll) cursor() []byte {
	if p.emit == nil {
		return appendString(nil, p.last)
	}
	return bothCursor(p.emit.topic, p.emit.pos, p.last)
}

// read asks until there is something to answer, or as long as the poll may be held (POLL-9).
func (p *checkPoll) read(ctx context.Context, place checkpoint, w replay) error {
	deadline := time.Now().Add(p.q.wait)
	found, from, text, err := p.u.replayFrom(ctx, place, w.maxAge)
	if err != nil {
		return err
	}
	_, p.last = from, text
	scanned := 0
	for {
		p.a.truncated = p.a.truncated || found.truncated
		p.a.nextPoll = found.nextPoll
		full, err := p.use(ctx, &found)
		if err != nil {
			return err
		}
		scanned += len(found.entries) + readChunk // an empty page costs as well
		if full || found.more && scanned >= p.s.options.ScanLimit {
			p.a.more = true
			return nil
		}
		if !found.more {
			if err := p.readLog(ctx); err != nil || len(p.a.out) > 0 || p.a.more || p.a.truncated {
				return err
			}
			if again, err := p.hold(ctx, deadline); err != nil || !again {
				return err
			}
		}
		next, ok := p.u.parseOwn(p.last)
		if !ok {
			return errNoCursor
		}
		if found, err = p.u.step(ctx, next); err != nil {
			return err
		}
	}
}

// use takes the matching entries of a step up to the limit; full when entries are left.
func (p *checkPoll) use(ctx context.Context, found *step) (full bool, err error) {
	for i := range found.entries {
		e := &found.entries[i]
		o, ok, err := consider(ctx, newRecord(p.q.args.def, *e, nil), p.q.args, p.q.sub.ID)
		if err != nil {
			return false, err
		}
		if ok {
			if p.room -= o.size(); len(p.a.out) == p.q.limit || p.room < 0 && len(p.a.out) > 0 {
				return true, nil // this one stays ahead of the cursor
			}
			p.a.out = append(p.a.out, o)
		}
		p.last = e.Cursor
	}
	p.last = p.u.text(found.next)
	return len(p.a.out) == p.q.limit && found.more, nil
}

// readLog appends what was emitted, as far as there is room.
func (p *checkPoll) readLog(ctx context.Context) error {
	if p.emit == nil {
		return nil
	}
	scan := p.s.options.ScanLimit
	for len(p.a.out) < p.q.limit {
		n := len(p.a.out)
		got, err := p.emit.nextWithin(ctx, p.a.out, p.q.limit, p.q.bytes, scan)
		if err != nil {
			return err
		}
		kept := got.out[:n]
		for _, o := range got.out[n:] {
			if p.q.et.origins.fromEmit(p.u.hash, o.rec.entry.EventID) {
				kept = append(kept, o)
			}
		}
		p.a.out, p.a.more = kept, got.more
		p.a.truncated = p.a.truncated || got.gap
		if !got.gap && (!got.more || len(got.out) < p.q.limit) {
			return nil
		}
	}
	more, err := p.emit.waiting(ctx, scan)
	p.a.more = more
	return err
}

// hold waits until it is worth asking again; false when the time is over.
func (p *checkPoll) hold(ctx context.Context, deadline time.Time) (again bool, err error) {
	rest := time.Until(deadline)
	if rest <= 0 || p.s.isClosed() {
		return false, nil
	}
	pause := p.a.nextPoll
	if pause <= 0 {
		pause = p.q.args.def.options.nextPoll
	}
	timer := time.NewTimer(min(pause, rest))
	defer timer.Stop()
	var wake chan struct{}
	if p.emit != nil {
		wake = make(chan struct{}, 1)
		r := &reader{topic: p.emit.topic, args: p.emit.args, id: p.emit.id, pos: p.emit.pos, wake: wake, slot: -1}
		defer r.topic.detach(r)
		if !r.topic.park(r) {
			// Something was emitted, or the type was changed: then let the caller come back.
			return p.q.et.current() == p.q.args.def, nil
		}
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-p.s.closing:
		return false, nil
	case <-wake:
	case <-timer.C:
	}
	if p.q.et.current() == nil {
		return false, fault.NotFound("event")
	}
	return p.q.et.current() == p.q.args.def, nil
}
