package polling

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Any holds polls together until one of them has something or, where Quiet says so, until nothing further has come for
// that long, or nothing further may come: at the end of Wait, at a bound of the answer, or because a poll cannot go on.
// Limit, MaxPage, Wait, Quiet and Closing are the first one's, for all of them. found is what they have together, what
// came at once oldest first, and each has an answer of its own, with what it has of that. tick is called before each
// rest, with the time until which it lasts, and gives an earlier one or the same. An error is that of the poll with the
// number wrong; once something is found there is none but that of ctx.
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

// A waiting is polls that are held together. It is a [topic.Parker] over theirs, so that the loop of every poll turns
// it too.
type waiting struct {
	ctx     context.Context
	members []*member
	limit   int // of the occurrences together
	bytes   int
	quiet   time.Duration
	tick    func(until time.Time) time.Time

	taken []topic.Outcome
	size  int       // of taken
	full  bool      // the next one has no room
	until time.Time // when it is quiet, once something is taken
	err   error
	wrong int // whose err is
}

// A member is one poll of a waiting. What its reader has in a.Out is not settled yet.
type member struct {
	*reader
	due    time.Time       // a check is not asked before
	shared bool            // another one reads the same event type
	used   int             // outcomes that are taken
	given  []topic.Outcome // those that are settled
	failed bool            // when others had something

	cursor  []byte         // after those, as JSON
	passed  store.Position // with them, of the type's log if fromLog
	fromLog bool
}

// begin opens the source. A check without a cursor tells where "now" is; from there it can be held.
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

// turn lets every poll take its turn, and is over when one of them is, or when it has been quiet.
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
		// Each may be read to the bound of all: what is not taken is read again.
		r.limit, r.bytes = w.limit-had, (w.bytes-w.size)/len(w.members)
		next, at := r.turn()
		switch {
		case r.err != nil && had > 0 && w.ctx.Err() == nil: // the caller's next poll finds that
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
		return topic.Again, time.Time{} // another member of the type has not come as far
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

// settle settles what is taken, and tells whether a member has more.
func (w *waiting) settle() (rest bool) {
	for _, r := range w.members {
		r.settle()
		rest = rest || len(r.a.Out) > 0
	}
	return rest
}

// take merges what the members have, oldest first, up to the bounds. What two members of one type have is taken once: so
// none of them is taken further than the other has read.
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
		for _, r := range w.members { // timestamps are the author's, and need not be in a log's order
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

// next is what the member has to give next, nil for nothing.
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

// goesBefore orders the next occurrences of two members: by position in one log, else by time.
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

// settle makes what is taken the member's, with the cursor after it.
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

// stand notes where the source stands.
func (r *member) stand() {
	if r.cursor = r.source.Cursor(); r.log != nil {
		r.passed, r.fromLog = r.log.Position(), true
	}
}

// fail ends the poll with what is settled of it.
func (r *member) fail() { r.failed, r.a.Out, r.a.More = true, nil, true }

// answer is what is settled of the member.
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

// Cursor implements [topic.Parker]: there is one for each member.
func (w *waiting) Cursor() []byte { return topic.NullCursor }

// Close implements [topic.Parker].
func (w *waiting) Close() {
	for _, r := range w.members {
		if r.source != nil { // nil where it could not be opened
			r.source.Close()
		}
		r.holds(false)
	}
}
