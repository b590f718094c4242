package polling

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Any holds several polls together until one of them finds an occurrence. With Quiet, it continues until no further
// occurrence has arrived for that time, or until Wait ends, the answer is full or a poll cannot continue. Limit,
// MaxPage, Wait, Quiet and Closing of the first poll apply to all polls. found holds the occurrences of all polls;
// if several arrived together, the oldest is first; each holds one answer per poll with its part of them. tick is
// called before each wait with the time of its end, and returns that time or an earlier one. An error belongs to
// the poll with the index wrong. Once an occurrence is found, Any only returns the error of ctx.
func Any(ctx context.Context, polls []*Request, tick func(until time.Time) time.Time) (found []topic.Outcome, each []Answer, wrong int, err error) {
	ctx, leave := enter(ctx, polls...)
	defer leave()
	found, each, wrong, err = hold(ctx, polls, tick)
	if e := endOf(ctx); e != nil {
		return nil, nil, slices.Index(polls, e.q), e.reason
	}
	return found, each, wrong, err
}

func hold(ctx context.Context, polls []*Request, tick func(until time.Time) time.Time) (found []topic.Outcome, each []Answer, wrong int, err error) {
	w := &waiting{ctx: ctx, limit: polls[0].Limit, bytes: polls[0].MaxPage - pageOverhead*len(polls), quiet: polls[0].Quiet, tick: tick}
	defer w.Close()
	wake, types, deadline := topic.NewWake(), map[Type]*member{}, time.Now().Add(polls[0].Wait)
	for i, q := range polls {
		r := &member{reader: newReader(ctx, q, wake)}
		r.deadline, r.goes = deadline, w.quiet > 0
		w.members = append(w.members, r)
		if err := r.begin(); err != nil {
			return nil, nil, i, err
		}
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

// A waiting is a set of polls that are held together. It is a [topic.Parker] that parks all of them, so that one
// [topic.Loop] can run it.
type waiting struct {
	ctx     context.Context
	members []*member
	limit   int // of all occurrences
	bytes   int
	quiet   time.Duration
	tick    func(until time.Time) time.Time

	taken []topic.Outcome
	size  int       // of taken
	full  bool      // the next occurrence does not fit
	until time.Time // end of the quiet time, once something is taken
	err   error
	wrong int // index of the poll with err
}

// A member is one poll of a waiting. The occurrences in its reader's a.Out are not settled.
type member struct {
	*reader
	due    time.Time       // earliest call of a check
	shared bool            // another member reads the same event type
	used   int             // number of taken outcomes
	given  []topic.Outcome // settled outcomes
	failed bool            // while others had occurrences

	cursor  []byte         // after given, as JSON
	passed  store.Position // position after given, in the type's log if fromLog
	fromLog bool
}

// begin opens the source. A check without a cursor returns the cursor of "now", from which it can be held.
func (r *member) begin() error {
	replays, err := r.open()
	if err != nil {
		return err
	}
	r.cursor = r.source.Cursor()
	var now string
	if replays || json.Unmarshal(r.cursor, &now) != nil || now == "" {
		return nil
	}
	told := r.source
	if _, err = r.ask(topic.Replay{Cursor: &now}); err == nil {
		told.Close()
	}
	return err
}

// turn runs one turn of every poll. It is over when one of them is, or after the quiet time.
func (w *waiting) turn() (topic.Turn, time.Time) {
	if w.err = w.ctx.Err(); w.err != nil {
		return topic.Over, time.Time{}
	}
	now, until, had := time.Now(), w.members[0].deadline, len(w.taken)
	last, over, ends := w.members[0].last(now), false, false
	for i, r := range w.members {
		if now.Before(r.due) && !last {
			until = earlier(until, r.due)
			continue
		}
		// Each poll may read up to the bound of all; outcomes that are not taken are reread.
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
			if r.check != nil && !r.q.Args.Def.Check().Emits {
				r.due = at
			}
			until = earlier(until, at)
		}
	}
	w.take()
	rest := w.settle()
	switch found := len(w.taken); {
	case over, w.full, ends && found > 0:
		return topic.Over, time.Time{}
	case rest:
		return topic.Again, time.Time{} // another member of the type is behind
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

// settle settles the taken outcomes, and reports whether a member has more.
func (w *waiting) settle() (rest bool) {
	for _, r := range w.members {
		r.settle()
		rest = rest || len(r.a.Out) > 0
	}
	return rest
}

// take merges the members' outcomes, oldest first, up to the bounds. An occurrence of two members of one type is
// taken once, so no member is taken further than the other has read.
func (w *waiting) take() {
	horizon := map[Type]store.Position{}
	for _, r := range w.members {
		if r.shared && r.log != nil {
			if p, ok := horizon[r.q.Type]; !ok || r.log.Position() < p {
				horizon[r.q.Type] = r.log.Position()
			}
		}
	}
	for !w.full {
		var first *member
		for _, r := range w.members {
			if o := r.next(horizon); o != nil && (first == nil || r.goesBefore(first)) {
				first = r
			}
		}
		if first == nil {
			break
		}
		for _, r := range w.members { // authors set timestamps, which may be out of order in a log
			if r.inLogOf(first) && r.next(horizon) != nil && r.goesBefore(first) {
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

// next returns the member's next outcome, or nil.
func (r *member) next(horizon map[Type]store.Position) *topic.Outcome {
	if r.used == len(r.a.Out) {
		return nil
	}
	o := &r.a.Out[r.used]
	if r.shared && r.log != nil && o.Entry().Position > horizon[r.q.Type] {
		return nil
	}
	return o
}

// hasNext reports whether the member's next occurrence is o, of the same event type.
func (r *member) hasNext(o *topic.Outcome) bool {
	return r.used < len(r.a.Out) && r.a.Out[r.used].Entry().EventID == o.Entry().EventID
}

// goesBefore orders the next occurrences of two members: by position in the same log, otherwise by time.
func (r *member) goesBefore(other *member) bool {
	a, b := r.a.Out[r.used].Entry(), other.a.Out[other.used].Entry()
	if r.inLogOf(other) {
		return a.Position < b.Position
	}
	return a.Timestamp.Before(b.Timestamp.Time)
}

// inLogOf reports whether both read the same log.
func (r *member) inLogOf(other *member) bool {
	return r.q.Type == other.q.Type && r.log != nil && other.log != nil
}

// settle adds the taken outcomes to the member's answer, with the cursor after them.
func (r *member) settle() {
	switch {
	case r.used == 0:
		return
	case r.used == len(r.a.Out):
		r.stand()
	case r.check != nil:
		r.cursor = r.check.CursorAfter(r.a.Out, r.used)
	default:
		last := &r.a.Out[r.used-1]
		r.cursor, r.passed, r.fromLog = last.Cursor(), last.Entry().Position, true
	}
	r.given = append(r.given, r.a.Out[:r.used]...)
	r.a.Out, r.used = slices.Clone(r.a.Out[r.used:]), 0
}

// stand records the source's position.
func (r *member) stand() {
	if r.cursor = r.source.Cursor(); r.log != nil {
		r.passed, r.fromLog = r.log.Position(), true
	}
}

// fail ends the poll with its settled outcomes.
func (r *member) fail() { r.failed, r.a.Out, r.a.More = true, nil, true }

// answer returns the member's settled outcomes.
func (r *member) answer() Answer {
	if len(r.a.Out) == 0 && !r.failed {
		r.stand()
	}
	r.end()
	a := r.a
	a.Out, a.More = r.given, a.More || len(a.Out) > 0
	a.Cursor, a.Passed, a.FromLog = r.cursor, r.passed, r.fromLog
	return a
}

// Park implements [topic.Parker].
func (w *waiting) Park() bool {
	for i, r := range w.members {
		if !r.source.Park() {
			for _, parked := range w.members[:i] {
				parked.source.Unpark()
			}
			return false
		}
	}
	return true
}

// Unpark implements [topic.Parker].
func (w *waiting) Unpark() store.Position {
	for _, r := range w.members {
		r.source.Unpark()
	}
	return 0
}

// Cursor implements [topic.Parker]. Each member has its cursor, so it returns null.
func (w *waiting) Cursor() []byte { return topic.NullCursor }

// Close implements [topic.Parker].
func (w *waiting) Close() {
	for _, r := range w.members {
		if r.source != nil { // nil if it could not be opened
			r.source.Close()
		}
		r.holds(false)
	}
}
