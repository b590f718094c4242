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

// A Yield is a check that yields occurrences one by one, each with the upstream cursor that follows it. If cursor is
// empty, it yields the cursor for "now"; only the first yielded cursor is used. The iteration ends when the upstream
// service has no more occurrences. The check must not wait for more occurrences. The server stops the iteration early
// when it has enough occurrences, and later calls the check with the last cursor.
//
// Occurrences yielded before an error are used. The server then calls the check again with the last cursor. The check
// fails only if that call returns an error before it yields an occurrence. A panic discards the whole iteration.
//
// Occurrences must have different cursors. Otherwise, a subscriber that resumes after one would miss others or receive
// them twice. The check fails if an occurrence has the cursor of the call, of an earlier occurrence, or of the position
// before it. See SRV-1.
type Yield[A, P any] func(ctx context.Context, args A, cursor string) iter.Seq2[events.Found[P], error]

// Limits for one iteration of a [Yield]. An iteration that exceeds a limit is stopped at its next yield. The limit of
// time does not stop it at its first occurrence.
const (
	maxYielded = 100
	yieldTime  = time.Second
)

var (
	errNoYield       = errors.New("the yielding check is nil")
	errYieldNoCursor = errors.New("the check yielded an occurrence or a position without a cursor")
)

// Check runs one iteration of y. Its method value is a [Check] for [RegisterCheck] and [RegisterBoth].
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
		case len(p.Items) == maxYielded || (p.Cursor != cursor || f.Cursor == cursor) && time.Since(began) > yieldTime:
			p.HasMore = p.Cursor != cursor
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
