package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Yield is a check that yields occurrences one by one, each with the upstream's cursor after it. With an empty
// cursor it yields the cursor of "now"; the first cursor counts. The iteration ends when the upstream has no more
// occurrences; it must not wait for more. The server stops it early when it has enough, and later calls the check
// with the cursor it reached.
//
// The occurrences before an error are used. The server calls the check once more from there; if it then fails
// before it yields anything, the check has failed. A panic discards the whole iteration.
//
// Consecutive occurrences need different cursors; otherwise a subscriber that resumes from one would miss the next.
// The server refuses an iteration that repeats a cursor. See SRV-1.
type Yield[A, P any] func(ctx context.Context, args A, cursor string) iter.Seq2[events.Found[P], error]

// Bounds of one iteration of a [Yield]: the number of occurrences and the duration. A longer iteration is stopped
// at its next yield.
const (
	maxYielded = 100
	yieldTime  = time.Second
)

var (
	errNoYield       = errors.New("the yielding check is nil")
	errYieldNoCursor = errors.New("the check yielded an occurrence or a position without a cursor")
)

// Check runs one iteration of y as a [Check], for [RegisterCheck] and [RegisterBoth].
func (y Yield[A, P]) Check(ctx context.Context, args A, cursor string) (p events.Page[P], err error) {
	if y == nil {
		return p, errNoYield
	}
	p.Cursor = cursor
	began := time.Now()
	for f, err := range y(ctx, args, cursor) {
		if err = cmp.Or(ctx.Err(), err); err == nil && f.Cursor == "" {
			err = errYieldNoCursor
		}
		switch {
		case err != nil && (ctx.Err() != nil || p.Cursor == cursor):
			return events.Page[P]{}, err
		case err != nil: // the next call returns the error
			p.HasMore = true
			return p, nil
		case cursor == "":
			return events.Page[P]{Cursor: f.Cursor, NextPoll: f.NextPoll}, nil
		case f.Item != nil && f.Cursor == p.Cursor:
			return events.Page[P]{}, fmt.Errorf("the check yielded an occurrence with the cursor %.80q of the previous position", f.Cursor)
		case len(p.Items) == maxYielded || p.Cursor != cursor && time.Since(began) > yieldTime:
			p.HasMore = true
			return p, nil
		}
		if f.Item != nil {
			it := *f.Item
			it.Cursor = f.Cursor
			p.Items = append(p.Items, it)
		}
		p.Cursor, p.Truncated, p.NextPoll = f.Cursor, p.Truncated || f.Truncated, cmp.Or(f.NextPoll, p.NextPoll)
	}
	return p, nil
}
