package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An attemptRecord is the value of att: the attempts of one update, the first one first. Its encoding is that of package
// attemptlog, which has a form byte.
type attemptRecord struct {
	made []operator.Attempt
}

// Bytes implements [store.Value].
func (a *attemptRecord) Bytes() []byte { return attemptlog.Encode(a.made) }

// attemptsOf returns the attempts of a record. The caller may change the slice.
func attemptsOf(r store.Record) ([]operator.Attempt, error) {
	switch v := r.Value.(type) {
	case *attemptRecord:
		return slices.Clone(v.made), nil
	case store.Bytes:
		made, err := attemptlog.Decode(v)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, r.Key, err)
		}
		return made, nil
	}
	return nil, unexpected(r)
}

func attemptPrefix(id string) string { return familyAttempt + "/" + escape(id) + "/" }

// writeAttempts returns a write of a new record. Its key contains the inverted time of the latest attempt, so a scan
// returns the latest record first, and a random number.
func (l *Ledger) writeAttempts(id string, made []operator.Attempt) store.Write {
	last := made[len(made)-1].At
	key := fmt.Sprintf("%s%016x%08x", attemptPrefix(id), math.MaxInt64-last.UnixNano(), rand.Uint32())
	w := store.Write{Key: key, Value: &attemptRecord{slices.Clone(made)}, Once: true}
	if l.bounds.MaxAge > 0 {
		w.Until = last.Add(l.bounds.MaxAge)
	}
	return w
}

// lastAttempt returns the time in the key of a record of attempts.
func lastAttempt(key string) (at time.Time, ok bool) {
	var inverted int64
	if _, err := fmt.Sscanf(lastSegment(key), "%16x", &inverted); err != nil {
		return at, false
	}
	return time.Unix(0, math.MaxInt64-inverted), true
}

// Attempts returns up to limit attempts of a subscription, the latest first.
func (l *Ledger) Attempts(ctx context.Context, id string, limit int) ([]operator.Attempt, error) {
	found, err := l.e.Get(ctx, store.Latest, subKey(id))
	if err != nil {
		return nil, err
	}
	s, err := decode[subscriptionRecord](found[0])
	if err != nil || s == nil {
		return nil, err
	}
	var attempts []operator.Attempt
	for after := ""; len(attempts) < limit; {
		page, err := l.e.Scan(ctx, attemptPrefix(id), after, min(limit-len(attempts), scanPage))
		if err != nil {
			return nil, fmt.Errorf("reading the attempts of subscription %s: %w", id, err)
		}
		for _, r := range page {
			made, err := attemptsOf(r)
			if err != nil && !l.passOver(r.Key, err) {
				return nil, err
			}
			slices.Reverse(made)
			attempts, after = append(attempts, made...), r.Key
		}
		if len(page) == 0 {
			break
		}
	}
	// The attempts of an earlier subscription come last.
	attempts = slices.DeleteFunc(attempts, func(a operator.Attempt) bool { return a.At.Before(s.CreatedAt) })
	return attempts[:min(len(attempts), max(limit, 0))], nil
}

var errEnough = errors.New("ledger: enough was read")

// DeleteAttempts deletes the attempts of a subscription. A process that has removed the subscription calls it afterwards,
// outside any request. [Ledger.Retain] deletes what remains.
func (l *Ledger) DeleteAttempts(ctx context.Context, id string) error {
	return l.pages(ctx, attemptPrefix(id), func(page []store.Record) error { return l.deleteOnce(ctx, page) })
}

// deleteOnce deletes records that were written with [store.Write.Once]. It passes over a record that no longer exists.
func (l *Ledger) deleteOnce(ctx context.Context, records []store.Record) error {
	deletions := make([]store.Write, len(records))
	for i, r := range records {
		deletions[i] = store.Write{Key: r.Key, On: r.Revision, Once: true}
	}
	return l.deleteAll(ctx, deletions)
}

// trim deletes the attempts of a subscription that are beyond the bound, once the owner has written as many as the bound
// allows since the last time. So there are at most about twice as many.
func (o *Owned) trim(ctx context.Context, id string) error {
	bound := o.l.bounds.PerSubscription
	o.mu.Lock()
	due := bound > 0 && o.written[id] >= bound
	if due {
		o.written[id] = 0
	}
	o.mu.Unlock()
	if !due {
		return nil
	}
	kept := 0
	return o.l.pages(ctx, attemptPrefix(id), func(page []store.Record) error {
		var old []store.Record
		for _, r := range page {
			if kept >= bound {
				old = append(old, r)
				continue
			}
			made, err := attemptsOf(r)
			if err != nil && !o.l.passOver(r.Key, err) {
				return err
			}
			kept += max(len(made), 1)
		}
		return o.l.deleteOnce(ctx, old)
	})
}

// An attemptCount estimates how many attempts the store has: the latest count, and the attempts of this process since.
type attemptCount struct{ n atomic.Int64 }

func (c *attemptCount) grew(n int)             { c.n.Add(int64(n)) }
func (c *attemptCount) exceeds(bound int) bool { return c.n.Load() > int64(bound) }
func (c *attemptCount) set(n int)              { c.n.Store(int64(n)) }

// TrimAttempts deletes the attempts that are beyond the bounds at a time: attempts that are too old, the oldest ones of a
// subscription that has too many, the oldest ones if there are too many in all, and attempts without a subscription.
func (l *Ledger) TrimAttempts(ctx context.Context, b AttemptBounds, now time.Time) error {
	t := trimming{l: l, b: b, now: now, byHour: map[int64]int{}}
	if err := l.pages(ctx, familyAttempt+"/", func(page []store.Record) error { return t.page(ctx, page) }); err != nil {
		return fmt.Errorf("deleting old attempts: %w", err)
	}
	if err := t.total(ctx); err != nil {
		return fmt.Errorf("deleting the oldest attempts: %w", err)
	}
	l.attempts.set(min(t.all, b.Total))
	return nil
}
