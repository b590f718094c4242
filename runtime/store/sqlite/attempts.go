package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var _ store.AttemptStore = (*Store)(nil)

// attempts know what trimming has to look at. A row holds what one update brought.
type attempts struct {
	trimming sync.Mutex // one step at a time

	mu      sync.Mutex
	atMost  int                 // attempts in the file; what went with its subscription counts until counted
	counted bool                // atMost and grown know of what was there when the file was opened
	grown   map[string]struct{} // subscriptions that may have more than they should
}

func (a *attempts) grew(subscription string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.atMost += n
	if a.grown == nil {
		a.grown = map[string]struct{}{}
	}
	a.grown[subscription] = struct{}{}
}

// next takes a subscription that has grown.
func (a *attempts) next() (subscription string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for subscription := range a.grown {
		delete(a.grown, subscription)
		return subscription, true
	}
	return "", false
}

// Attempts implements [store.AttemptStore].
func (s *Store) Attempts(ctx context.Context, subscription string, limit int) ([]store.Attempt, error) {
	db, err := s.queries(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT made FROM attempts WHERE subscription = ? ORDER BY sequence DESC LIMIT ?", subscription, max(limit, 0))
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var encoded [][]byte
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return nil, classify(err)
		}
		encoded = append(encoded, b)
	}
	if err := rows.Err(); err != nil {
		return nil, classify(err)
	}
	found, err := attemptlog.Latest(encoded, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	return found, nil
}

// TrimAttempts implements [store.AttemptStore].
func (s *Store) TrimAttempts(ctx context.Context, b store.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	a := &s.attempts
	a.trimming.Lock()
	defer a.trimming.Unlock()
	if err := s.countAttempts(ctx, b); err != nil {
		return false, err
	}
	removed, err := s.trimOldest(ctx, b, now, limit)
	if err != nil {
		return false, err
	}
	for limit -= removed; limit > 0; limit-- {
		subscription, ok := a.next()
		if !ok {
			return false, nil
		}
		n, err := s.trimOne(ctx, subscription, b.PerSubscription, limit)
		if err != nil {
			a.grew(subscription, 0)
			return false, err
		}
		if limit -= n; limit <= 0 {
			a.grew(subscription, 0) // there may be more of it
		}
	}
	return true, nil
}

// countAttempts counts when the file was just opened, or when there may be too many.
func (s *Store) countAttempts(ctx context.Context, b store.AttemptBounds) error {
	a := &s.attempts
	a.mu.Lock()
	first, needed := !a.counted, !a.counted || a.atMost > b.Total
	before := a.atMost
	a.mu.Unlock()
	if !needed {
		return nil
	}
	db, err := s.queries(ctx)
	if err != nil {
		return err
	}
	var all int
	if err := db.QueryRowContext(ctx, "SELECT coalesce(sum(count), 0) FROM attempts").Scan(&all); err != nil {
		return classify(err)
	}
	var grown []string
	if first {
		rows, err := db.QueryContext(ctx, "SELECT subscription FROM attempts GROUP BY subscription HAVING sum(count) > ?", b.PerSubscription)
		if err != nil {
			return classify(err)
		}
		defer rows.Close()
		for rows.Next() {
			var subscription string
			if err := rows.Scan(&subscription); err != nil {
				return classify(err)
			}
			grown = append(grown, subscription)
		}
		if err := rows.Err(); err != nil {
			return classify(err)
		}
	}
	for _, subscription := range grown {
		a.grew(subscription, 0)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted = true
	a.atMost = all + a.atMost - before // what was added meanwhile may be counted twice, which is harmless
	return nil
}

// trimOldest deletes up to limit rows that are too old, or the oldest where there are too many.
func (s *Store) trimOldest(ctx context.Context, b store.AttemptBounds, now time.Time, limit int) (removed int, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := db.QueryContext(ctx, "SELECT sequence, last, count FROM attempts ORDER BY sequence LIMIT ?", max(limit, 0))
	if err != nil {
		return 0, classify(err)
	}
	defer rows.Close()
	a := &s.attempts
	a.mu.Lock()
	over := a.atMost - b.Total
	a.mu.Unlock()
	var upTo int64
	gone := 0
	for rows.Next() {
		var sequence, last int64
		var count int
		if err := rows.Scan(&sequence, &last, &count); err != nil {
			return 0, classify(err)
		}
		if gone >= over && now.Sub(fromNanos(last)) < b.MaxAge {
			break
		}
		upTo, gone, removed = sequence, gone+count, removed+1
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || removed == 0 {
		return 0, err
	}
	err = s.writer.do(ctx, func(ctx context.Context, w *session) error {
		_, err := w.exec(ctx, "DELETE FROM attempts WHERE sequence <= ?", upTo)
		return err
	}, func() { a.shrank(gone) })
	return removed, err
}

func (a *attempts) shrank(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.atMost -= n
}

// trimOne deletes up to limit of a subscription's rows that the bound is kept without.
func (s *Store) trimOne(ctx context.Context, subscription string, bound, limit int) (removed int, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return 0, err
	}
	// Every row holds one attempt at least.
	rows, err := db.QueryContext(ctx, "SELECT sequence, count FROM attempts WHERE subscription = ? ORDER BY sequence DESC LIMIT ?",
		subscription, max(bound, 0)+limit)
	if err != nil {
		return 0, classify(err)
	}
	defer rows.Close()
	kept := 0
	var below int64
	for rows.Next() {
		var sequence int64
		var count int
		if err := rows.Scan(&sequence, &count); err != nil {
			return 0, classify(err)
		}
		if kept < bound {
			kept += count
			continue
		}
		if removed == 0 {
			below = sequence
		}
		removed++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || removed == 0 {
		return 0, err
	}
	removed = min(removed, limit)
	err = s.writer.do(ctx, func(ctx context.Context, w *session) error {
		_, err := w.exec(ctx, `DELETE FROM attempts WHERE sequence IN (
			SELECT sequence FROM attempts WHERE subscription = ? AND sequence <= ? ORDER BY sequence LIMIT ?)`, subscription, below, removed)
		return err
	}, func() { s.attempts.shrank(removed) })
	return removed, err
}
