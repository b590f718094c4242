package attemptlog

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Row describes a row of a [Table], which contains the attempts of one update.
type Row struct {
	// Sequence is a number that increases with each row written.
	Sequence int64
	// Last is the time of the row's latest attempt, in Unix nanoseconds.
	Last int64
	// Count is the number of attempts in the row, which is at least one.
	Count int
}

// A Table is the table of attempts in a store.
type Table interface {
	// CountAttempts returns the total number of attempts.
	CountAttempts(ctx context.Context) (int, error)
	// Crowded returns the subscriptions with more than bound attempts.
	Crowded(ctx context.Context, bound int) ([]string, error)
	// OldestRows returns up to limit rows, oldest first.
	OldestRows(ctx context.Context, limit int) ([]Row, error)
	// RowsOf returns up to limit rows of a subscription, latest first.
	RowsOf(ctx context.Context, subscription string, limit int) ([]Row, error)
	// DeleteRows deletes the rows up to and including the sequence upTo.
	DeleteRows(ctx context.Context, upTo int64) error
	// DeleteRowsOf deletes up to limit rows of a subscription up to and including the sequence upTo, oldest first.
	DeleteRowsOf(ctx context.Context, subscription string, upTo int64, limit int) error
}

// A Trimmer deletes excess attempts from a [Table]. Its zero value is ready to use.
type Trimmer struct {
	step sync.Mutex // held during a step

	mu      sync.Mutex
	atMost  int                 // upper bound of the attempts in the table; other deletions need not lower it
	counted bool                // atMost and grown include earlier attempts
	grown   map[string]struct{} // subscriptions that may exceed the bound
}

// Grew records that n attempts were written for a subscription.
func (t *Trimmer) Grew(subscription string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.atMost += n
	if t.grown == nil {
		t.grown = map[string]struct{}{}
	}
	t.grown[subscription] = struct{}{}
}

func (t *Trimmer) shrank(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.atMost -= n
}

// nextGrown removes and returns a subscription that might exceed the bound.
func (t *Trimmer) nextGrown() (subscription string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for subscription := range t.grown {
		delete(t.grown, subscription)
		return subscription, true
	}
	return "", false
}

// Trim implements TrimAttempts of [engine.Attempts].
func (t *Trimmer) Trim(ctx context.Context, table Table, b engine.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	t.step.Lock()
	defer t.step.Unlock()
	if err := t.updateCount(ctx, table, b); err != nil {
		return false, err
	}
	removed, err := t.trimOldest(ctx, table, b, now, limit)
	if err != nil {
		return false, err
	}
	for limit -= removed; limit > 0; limit-- {
		subscription, ok := t.nextGrown()
		if !ok {
			return false, nil
		}
		n, err := t.trimSubscription(ctx, table, subscription, b.PerSubscription, limit)
		if limit -= n; err != nil || limit <= 0 {
			t.Grew(subscription, 0) // the subscription may have more
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// updateCount counts the stored attempts on the first call, and whenever there might be too many of them.
func (t *Trimmer) updateCount(ctx context.Context, table Table, b engine.AttemptBounds) error {
	t.mu.Lock()
	first, before := !t.counted, t.atMost
	t.mu.Unlock()
	if !first && before <= b.Total {
		return nil
	}
	all, err := table.CountAttempts(ctx)
	if err != nil {
		return err
	}
	if first {
		crowded, err := table.Crowded(ctx, b.PerSubscription)
		if err != nil {
			return err
		}
		for _, subscription := range crowded {
			t.Grew(subscription, 0)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counted = true
	t.atMost += all - before // attempts written meanwhile may count twice until the next count
	return nil
}

// trimOldest deletes up to limit rows that are too old. If there are too many attempts, it also deletes the oldest
// rows.
func (t *Trimmer) trimOldest(ctx context.Context, table Table, b engine.AttemptBounds, now time.Time, limit int) (removed int, err error) {
	rows, err := table.OldestRows(ctx, max(limit, 0))
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	over := t.atMost - b.Total
	t.mu.Unlock()
	gone := 0
	for _, r := range rows {
		if gone >= over && now.Sub(time.Unix(0, r.Last)) < b.MaxAge {
			break
		}
		gone, removed = gone+r.Count, removed+1
	}
	if removed == 0 {
		return 0, nil
	}
	if err := table.DeleteRows(ctx, rows[removed-1].Sequence); err != nil {
		return 0, err
	}
	t.shrank(gone)
	return removed, nil
}

// trimSubscription deletes up to limit rows of a subscription that exceed the bound.
func (t *Trimmer) trimSubscription(ctx context.Context, table Table, subscription string, bound, limit int) (removed int, err error) {
	rows, err := table.RowsOf(ctx, subscription, max(bound, 0)+limit) // each row holds at least one attempt
	if err != nil {
		return 0, err
	}
	kept := 0
	for len(rows) > 0 && kept < bound {
		kept += rows[0].Count
		rows = rows[1:]
	}
	if len(rows) == 0 {
		return 0, nil
	}
	removed = min(len(rows), limit)
	if err := table.DeleteRowsOf(ctx, subscription, rows[0].Sequence, removed); err != nil {
		return 0, err
	}
	t.shrank(removed)
	return removed, nil
}
