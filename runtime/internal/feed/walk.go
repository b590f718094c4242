package feed

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A stepWalk reads an upstream one step at a time for a subscription.
type stepWalk struct {
	u       *upstream
	id      string // id of the subscription
	cursors bool   // occurrences have cursors

	last    string      // cursor of the passed position
	at      checkpoint  // checkpoint of the next call
	backlog []stepEntry // entries of the current step after last
	after   checkpoint  // after the backlog, with its cursor
	cursor  string
}

// setStep sets the step to read next.
func (w *stepWalk) setStep(s *step) {
	w.backlog, w.after, w.cursor = s.entries, s.next, s.cursor
	if len(s.entries) == 0 {
		w.finishStep()
	}
}

// finishStep advances past the current step.
func (w *stepWalk) finishStep() { w.at, w.last = w.after, w.cursor }

// readMatching appends matching occurrences from the backlog to the slice into, up to the bound. The result left is the
// rest of the bound's Scan. Entries remain if the backlog is not empty.
func (w *stepWalk) readMatching(ctx context.Context, into []topic.Outcome, b topic.Bound) (out []topic.Outcome, left int, err error) {
	bytes := b.Bytes
	for i := range into {
		bytes -= into[i].Size()
	}
	left = b.Scan
	for left > 0 && len(w.backlog) > 0 {
		e := &w.backlog[0]
		rec := e.rec
		if rec == nil {
			var cursor []byte
			if w.cursors {
				cursor = frame.AppendString(nil, e.Cursor)
			}
			rec = topic.NewRecord(w.u.args.Of, e.Entry, cursor)
		}
		o, ok, cost, err := rec.Consider(ctx, w.u.args, w.id)
		left -= cost
		if err != nil {
			return into, left, err
		}
		if ok {
			if bytes -= o.Size(); len(into) == b.Outcomes || bytes < 0 && len(into) > 0 {
				return into, left, nil // the cursor stays before this entry
			}
			into = append(into, o)
		}
		w.last = e.Cursor
		if w.backlog = w.backlog[1:]; len(w.backlog) == 0 {
			w.finishStep()
		}
	}
	return into, left, nil
}
