package polling

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Any serves several long polls together until one of them finds an occurrence. If Quiet is set, Any continues until no
// further occurrence has arrived for that time. It also returns if Wait has elapsed, the answer is full or a poll
// cannot continue. Limit, MaxPage, Wait, Quiet and Closing of the first poll apply to all polls.
//
// found contains the occurrences of all polls. If several arrive together, the oldest comes first. each contains one
// answer per poll with that poll's occurrences. tick is called with the deadline before each wait and returns that
// deadline or an earlier one. If err is not nil, wrong is the index of the poll that caused the error. Once an
// occurrence has been found, Any returns only errors of ctx.
func Any(ctx context.Context, polls []*Request, tick func(until time.Time) time.Time) (found []topic.Outcome, each []Answer, wrong int, err error) {
	ctx, leave := enter(ctx, polls...)
	defer leave()
	found, each, wrong, err = hold(ctx, polls, tick)
	if err == nil {
		if err = polls[0].Access.Await(ctx); err != nil {
			found, each = nil, nil
		}
	}
	if e := causeOf(ctx); e != nil {
		return nil, nil, slices.Index(polls, e.q), e.reason
	}
	return found, each, wrong, err
}

func hold(ctx context.Context, polls []*Request, tick func(until time.Time) time.Time) (found []topic.Outcome, each []Answer, wrong int, err error) {
	w := &pollSet{ctx: ctx, limit: polls[0].Limit, bytes: polls[0].MaxPage - pageOverhead*len(polls), quiet: polls[0].Quiet, tick: tick}
	defer w.Close()
	wake, types, deadline := topic.NewWake(), map[Type]*member{}, time.Now().Add(polls[0].Wait)
	for i, q := range polls {
		r := &member{reader: newReader(ctx, q)}
		r.deadline, r.goes = deadline, w.quiet > 0
		w.members = append(w.members, r)
		if err := r.open(wake); err != nil {
			return nil, nil, i, err
		}
		r.recordPosition()
		if other := types[q.Type]; other != nil {
			other.shared, r.shared = true, true
		}
		types[q.Type] = r
	}
	topic.Loop{Source: w, Wake: wake, Stop: polls[0].Closing}.Run(ctx, w.turn)
	if w.err != nil {
		for _, r := range w.members {
			r.q.Type.Polled(ctx, r.q, &Answer{}, r.err)
		}
		return nil, nil, w.wrong, w.err
	}
	for _, r := range w.members {
		a := r.answer()
		r.q.Type.Polled(ctx, r.q, &a, nil)
		each = append(each, a)
	}
	return w.taken, each, 0, nil
}

// A pollSet is a set of polls that wait together. It implements [topic.Parker] by parking all of them, so one
// [topic.Loop] can run the set.
type pollSet struct {
	ctx     context.Context
	members []*member
	limit   int // of all occurrences
	bytes   int
	quiet   time.Duration
	tick    func(until time.Time) time.Time

	taken []topic.Outcome
	size  int       // of taken
	full  bool      // the next occurrence does not fit
	until time.Time // end of the quiet time, once an outcome has been taken
	err   error
	wrong int // index of the poll with err
}

// A member is one poll of a pollSet. The outcomes in its reader's a.Out have not been settled.
type member struct {
	*reader
	due    time.Time       // earliest call of a check
	shared bool            // whether another member reads the same event type
	used   int             // number of taken outcomes
	given  []topic.Outcome // settled outcomes
	failed bool            // whether the poll failed after others had found occurrences

	cursor []byte         // after given, as JSON
	passed store.Position // position after given, in the type's log
}

// turn executes one turn of every poll. It returns Over if one of the polls is over or the quiet time has elapsed.
func (w *pollSet) turn() (topic.Turn, time.Time) {
	if w.err = w.ctx.Err(); w.err != nil {
		return topic.Over, time.Time{}
	}
	now, until, had := time.Now(), w.members[0].deadline, len(w.taken)
	last, over, ends := w.members[0].expired(now), false, false
	for i, r := range w.members {
		if now.Before(r.due) && !last {
			until = earlier(until, r.due)
			continue
		}
		// Each poll may read up to the common bound. Outcomes that are not taken are reread later.
		r.limit, r.bytes = w.limit-had, (w.bytes-w.size)/len(w.members)
		next, at := r.turn()
		switch {
		case r.err != nil && had > 0 && w.ctx.Err() == nil: // the caller's next poll returns the error
			r.fail()
			over = true
		case r.err != nil:
			w.err, w.wrong = r.err, i
			return topic.Over, time.Time{}
		case next == topic.Over:
			over, ends = over || len(r.a.Out) == 0, true
		default:
			if !r.Rings() {
				r.due = at
			}
			until = earlier(until, at)
		}
	}
	w.merge()
	rest := w.settle()
	switch found := len(w.taken); {
	case over, w.full, ends && found > 0:
		return topic.Over, time.Time{}
	case rest:
		return topic.Again, time.Time{} // another member with the same type is behind
	case found > had:
		w.until = time.Now().Add(w.quiet)
	case found > 0 && !time.Now().Before(w.until):
		return topic.Over, time.Time{}
	}
	if len(w.taken) > 0 {
		until = earlier(until, w.until)
	}
	return topic.Rest, w.tick(until)
}

// settle adds the taken outcomes to the members' answers and reports whether a member has more outcomes.
func (w *pollSet) settle() (rest bool) {
	for _, r := range w.members {
		r.settle()
		rest = rest || len(r.a.Out) > 0
	}
	return rest
}

// merge takes outcomes from all members, oldest first, up to the bounds. An occurrence found by two members with the
// same type is taken only once. So merge does not take outcomes of one member beyond the position that the other member
// has read.
func (w *pollSet) merge() {
	horizon := map[Type]store.Position{}
	for _, r := range w.members {
		if r.shared && r.a.FromLog {
			if p, ok := horizon[r.q.Type]; !ok || r.Position() < p {
				horizon[r.q.Type] = r.Position()
			}
		}
	}
	for !w.full {
		var first *member
		for _, r := range w.members {
			if o := r.next(horizon); o != nil && (first == nil || r.precedes(first)) {
				first = r
			}
		}
		if first == nil {
			break
		}
		for _, r := range w.members { // authors set timestamps, which may be out of order in a log
			if r.sharesLog(first) && r.next(horizon) != nil && r.precedes(first) {
				first = r
			}
		}
		o := first.a.Out[first.used]
		if w.size+o.Size() > w.bytes && len(w.taken) > 0 {
			w.full = true
			break
		}
		w.taken, w.size = append(w.taken, o), w.size+o.Size()
		w.full = len(w.taken) >= w.limit
		for _, r := range w.members {
			if r == first || r.q.Type == first.q.Type && r.hasNext(&o) {
				r.used++
			}
		}
	}
}

// next returns the member's next outcome up to the horizon of its type, or nil.
func (r *member) next(horizon map[Type]store.Position) *topic.Outcome {
	if r.used == len(r.a.Out) {
		return nil
	}
	o := &r.a.Out[r.used]
	if r.shared && r.a.FromLog && o.Entry().Position > horizon[r.q.Type] {
		return nil
	}
	return o
}

// hasNext reports whether the member's next occurrence has the same eventId as o.
func (r *member) hasNext(o *topic.Outcome) bool {
	return r.used < len(r.a.Out) && r.a.Out[r.used].Entry().EventID == o.Entry().EventID
}

// precedes reports whether the member's next occurrence precedes that of the other member. It compares positions if
// both read the same log, and timestamps otherwise.
func (r *member) precedes(other *member) bool {
	a, b := r.a.Out[r.used].Entry(), other.a.Out[other.used].Entry()
	if r.sharesLog(other) {
		return a.Position < b.Position
	}
	return a.Timestamp.Before(b.Timestamp.Time)
}

// sharesLog reports whether both members read the same log.
func (r *member) sharesLog(other *member) bool { return r.q.Type == other.q.Type && r.a.FromLog }

// settle adds the taken outcomes to the member's answer and advances its cursor.
func (r *member) settle() {
	switch {
	case r.used == 0:
		return
	case r.used == len(r.a.Out):
		r.recordPosition()
	default:
		r.cursor, r.passed = r.After(r.a.Out, r.used)
	}
	r.given = append(r.given, r.a.Out[:r.used]...)
	r.a.Out, r.used = slices.Clone(r.a.Out[r.used:]), 0
}

// recordPosition sets the member's cursor and position to those of the reader.
func (r *member) recordPosition() { r.cursor, r.passed = r.Cursor(), r.Position() }

// fail ends the poll and discards the outcomes that have not been settled.
func (r *member) fail() { r.failed, r.a.Out, r.a.More = true, nil, true }

// answer returns the member's answer, which contains the settled outcomes.
func (r *member) answer() Answer {
	if len(r.a.Out) == 0 && !r.failed {
		r.recordPosition()
	}
	r.end()
	a := r.a
	a.Out, a.More = r.given, a.More || len(a.Out) > 0
	a.Cursor, a.Passed = r.cursor, r.passed
	return a
}

// Park implements [topic.Parker].
func (w *pollSet) Park() bool {
	for i, r := range w.members {
		if !r.Park() {
			for _, parked := range w.members[:i] {
				parked.Unpark()
			}
			return false
		}
	}
	return true
}

// Unpark implements [topic.Parker].
func (w *pollSet) Unpark() store.Position {
	for _, r := range w.members {
		r.Unpark()
	}
	return 0
}

// Cursor implements [topic.Parker]. It returns null, because each member has a separate cursor.
func (w *pollSet) Cursor() []byte { return topic.NullCursor }

// Close implements [topic.Parker].
func (w *pollSet) Close() {
	for _, r := range w.members {
		r.Close()
		r.setHeld(false)
	}
}
