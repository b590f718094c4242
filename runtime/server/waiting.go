package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A waiting is one call of a tool that waits: polls that are held together, until one of them has
// something. It is a [topic.Parker] over theirs, so that the loop of every poll turns it too.
type waiting struct {
	s        *Server
	ctx      context.Context
	wake     topic.Wake
	readers  []*waitReader
	limit    int // of the occurrences together
	bytes    int
	deadline time.Time
	progress *progress // nil where nobody wants to be told

	taken []topic.Outcome
	err   error
	wrong int // whose reader's err is
}

// A waitReader is one poll of a waiting.
type waitReader struct {
	pollReader
	before []byte    // the cursor that it began with, as JSON
	due    time.Time // a check is not asked before
	shared bool      // another one reads the same event type
	used   int       // outcomes that are taken
}

// await holds polls together until one of them has something, or until the deadline. bytes bounds their
// occurrences together, limit their number. On an error of one of them, its index is returned.
func (s *Server) await(ctx context.Context, polls []*pollRequest, limit int, deadline time.Time, tell *progress) (*waiting, int, error) {
	w := &waiting{s: s, ctx: ctx, wake: topic.NewWake(), limit: limit, bytes: s.options.MaxPage - pageOverhead*len(polls),
		deadline: deadline, progress: tell}
	defer w.Close()
	types := map[*eventType]*waitReader{}
	for i, q := range polls {
		// Each may be read to the bound of all: what is not taken is read again.
		q.limit, q.bytes = limit, w.bytes/len(polls)
		r := &waitReader{pollReader: pollReader{s: s, q: q, a: &pollAnswer{}, ctx: ctx, deadline: deadline, wake: w.wake}}
		w.readers = append(w.readers, r)
		if err := r.begin(); err != nil {
			return nil, i, err
		}
		if other := types[q.et]; other != nil {
			other.shared, r.shared = true, true
		}
		types[q.et] = r
	}
	loop{source: w, wake: w.wake, stop: s.closing}.run(ctx, w.turn)
	for _, r := range w.readers {
		s.polled(ctx, r.q.et, r.used > 0, r.err)
	}
	if w.err != nil {
		return nil, w.wrong, w.err
	}
	for _, r := range w.readers {
		r.a.cursor = r.cursor()
		switch out := r.a.out; {
		case r.log == nil:
		case r.used == len(out):
			s.leases.reached(r.q.sub.ID, r.log.Position())
		case r.used > 0:
			s.leases.reached(r.q.sub.ID, out[r.used-1].Entry().Position)
		}
	}
	s.logKept(ctx, w.taken)
	return w, 0, nil
}

// toolPoll makes all checks of one poll of a tool that waits.
func (s *Server) toolPoll(ctx context.Context, principal string, p *wire.PollParams, wait time.Duration) (*pollRequest, error) {
	et, d, err := s.lookup(ctx, principal, p.Name)
	var q *pollRequest
	if err == nil {
		q, err = s.pollRequest(ctx, principal, p, et, d, wait)
	}
	if err != nil {
		s.polled(ctx, et, false, err)
		return nil, err
	}
	return q, nil
}

// begin opens the source. A check without a cursor tells where "now" is; from there it can be held.
func (r *waitReader) begin() error {
	replays, err := r.open(r.ctx)
	if err != nil {
		return err
	}
	r.before = r.source.Cursor()
	var now string
	if replays || json.Unmarshal(r.before, &now) != nil || now == "" {
		return nil
	}
	q := r.q
	check, _, err := q.et.feeds.Poll(r.ctx, q.et.seat(q.sub, r.wake), q.args.def.check, q.args.Arguments,
		feed.Start{Replay: topic.Replay{Cursor: &now}, Head: q.head})
	if err != nil {
		return err
	}
	r.source.Close()
	r.check, r.source = check, check
	return nil
}

// turn lets every poll take its turn, and is over when one of them is.
func (w *waiting) turn() (turn, time.Time) {
	if w.err = w.ctx.Err(); w.err != nil {
		return over, time.Time{}
	}
	now, until := time.Now(), w.deadline
	last := !now.Before(w.deadline) || w.s.isClosed()
	ended, holds := last, false
	for i, r := range w.readers {
		if now.Before(r.due) && !last {
			until = earlier(until, r.due)
			continue
		}
		next, at := r.turn()
		switch {
		case r.err != nil:
			w.err, w.wrong = r.err, i
			return over, time.Time{}
		case next == over && len(r.a.out) > 0:
			holds = true
		case next == over:
			ended = true
		default:
			if r.check != nil && !r.q.args.def.emits {
				r.due = at
			}
			until = earlier(until, at)
		}
	}
	switch {
	case w.take() || ended:
		return over, time.Time{}
	case holds:
		return again, time.Time{} // another reader of the type has not come as far
	}
	return rest, w.progress.until(w.ctx, until)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// take merges what the readers have, oldest first, up to the bounds; false when there is nothing. What two
// readers of one type have is taken once: so none of them is taken further than the other has read.
func (w *waiting) take() bool {
	horizon := map[*eventType]store.Position{}
	for _, r := range w.readers {
		if r.shared && r.log != nil {
			if p, ok := horizon[r.q.et]; !ok || r.log.Position() < p {
				horizon[r.q.et] = r.log.Position()
			}
		}
	}
	size := 0
	for len(w.taken) < w.limit {
		var first *waitReader
		for _, r := range w.readers {
			if o := r.next(horizon); o != nil && (first == nil || r.goesBefore(first)) {
				first = r
			}
		}
		if first == nil {
			break
		}
		for _, r := range w.readers { // timestamps are the author's, and need not be in a log's order
			if r.inLogOf(first) && r.next(horizon) != nil && r.goesBefore(first) {
				first = r
			}
		}
		o := first.a.out[first.used]
		if size += o.Size(); size > w.bytes && len(w.taken) > 0 {
			break
		}
		w.taken = append(w.taken, o)
		for _, r := range w.readers {
			if r == first || r.q.et == first.q.et && r.hasNext(&o) {
				r.used++
			}
		}
	}
	return len(w.taken) > 0
}

// next is what the reader has to give next, nil for nothing.
func (r *waitReader) next(horizon map[*eventType]store.Position) *topic.Outcome {
	if r.used == len(r.a.out) {
		return nil
	}
	o := &r.a.out[r.used]
	if r.shared && r.log != nil && o.Entry().Position > horizon[r.q.et] {
		return nil
	}
	return o
}

// hasNext reports whether the reader's next occurrence is o, of the same event type.
func (r *waitReader) hasNext(o *topic.Outcome) bool {
	return r.used < len(r.a.out) && r.a.out[r.used].Entry().EventID == o.Entry().EventID
}

// goesBefore orders the next occurrences of two readers: by position in one log, else by time.
func (r *waitReader) goesBefore(other *waitReader) bool {
	a, b := r.a.out[r.used].Entry(), other.a.out[other.used].Entry()
	if r.inLogOf(other) {
		return a.Position < b.Position
	}
	return a.Timestamp.Before(b.Timestamp.Time)
}

// inLogOf reports whether both read the same log.
func (r *waitReader) inLogOf(other *waitReader) bool {
	return r.q.et == other.q.et && r.log != nil && other.log != nil
}

// cursor is the one after what is taken of the reader, as JSON.
func (r *waitReader) cursor() []byte {
	switch out := r.a.out; {
	case r.used == len(out):
		return r.source.Cursor()
	case r.used == 0:
		return r.before
	case r.check != nil:
		return r.check.CursorAfter(out, r.used)
	default:
		return out[r.used-1].Cursor()
	}
}

// truncated tells that one of the polls has lost occurrences, and more that one of them has more.
func (w *waiting) truncated() (lost bool) {
	for _, r := range w.readers {
		lost = lost || r.a.truncated
	}
	return lost
}

func (w *waiting) more() (more bool) {
	for _, r := range w.readers {
		more = more || r.a.more || r.used < len(r.a.out)
	}
	return more
}

// Park implements [topic.Parker].
func (w *waiting) Park() bool {
	for i, r := range w.readers {
		if !r.source.Park() {
			for _, parked := range w.readers[:i] {
				parked.source.Unpark()
			}
			return false
		}
	}
	return true
}

// Unpark implements [topic.Parker].
func (w *waiting) Unpark() store.Position {
	for _, r := range w.readers {
		r.source.Unpark()
	}
	return 0
}

// Cursor implements [topic.Parker]: there is one for each reader.
func (w *waiting) Cursor() []byte { return topic.NullCursor }

// Close implements [topic.Parker].
func (w *waiting) Close() {
	for _, r := range w.readers {
		if r.source != nil { // nil where it could not be opened
			r.source.Close()
		}
		r.holds(false)
	}
}
