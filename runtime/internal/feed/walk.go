package feed

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A walk reads what an upstream gives, step by step: it is how every subscription reads a check that
// does not read a feed's log.
type walk struct {
	u       *upstream
	id      string // of the subscription
	cursors bool   // occurrences have their own

	last    string        // cursor of what is passed
	lastID  string        // the eventId of what is passed last
	at      checkpoint    // of the next question
	backlog []store.Entry // after last, before at's step is done
	after   checkpoint    // of the backlog
}

// take makes s what is read next.
func (w *walk) take(s *step) {
	w.backlog, w.after = s.entries, s.next
	if len(s.entries) == 0 {
		w.pass()
	}
}

// pass goes on to the next question.
func (w *walk) pass() { w.at, w.last = w.after, w.u.text(w.after) }

// read appends the backlog's matching occurrences, within the bound; false when entries are left.
func (w *walk) read(ctx context.Context, into []topic.Outcome, b topic.Bound) (out []topic.Outcome, done bool, err error) {
	bytes := b.Bytes
	for i := range into {
		bytes -= into[i].Size()
	}
	for range b.Scan {
		if len(w.backlog) == 0 {
			break
		}
		e := &w.backlog[0]
		var cursor []byte
		if w.cursors {
			cursor = frame.AppendString(nil, e.Cursor)
		}
		o, ok, err := topic.Consider(ctx, *e, cursor, w.u.args, w.id)
		if err != nil {
			return into, false, err
		}
		if ok {
			if bytes -= o.Size(); len(into) == b.Outcomes || bytes < 0 && len(into) > 0 {
				return into, false, nil // this one stays ahead of the cursor
			}
			into = append(into, o)
		}
		w.last, w.lastID = e.Cursor, e.EventID
		if w.backlog = w.backlog[1:]; len(w.backlog) == 0 {
			w.pass()
		}
	}
	return into, len(w.backlog) == 0, nil
}
