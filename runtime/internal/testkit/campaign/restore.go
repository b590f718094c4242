package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// emitTime is how long emitters run before and after a backup.
	emitTime = 1500 * time.Millisecond
	// recoveryTime is the maximum time after a restore until consumers must have received everything.
	recoveryTime = 30 * time.Second
)

// runRestores restores older backups as described in docs/postgres.md. In each round, it stops the servers, restores
// the backup into the same database, and restarts the servers. The cursors of all consumers are then beyond the end of
// the restored log. Every consumer must be notified of the truncation and receive all entries from the oldest one
// onward. Events acknowledged after the restore must not be lost. In every second round, enough events are emitted
// immediately to move the head past all cursors before any consumer reads.
func (c *Campaign) runRestores(ctx context.Context) error {
	consuming, stopConsuming := context.WithCancel(ctx)
	var consumers sync.WaitGroup
	for _, x := range c.consumers {
		consumers.Go(func() { x.run(consuming) })
	}
	defer consumers.Wait()
	defer stopConsuming()
	db, ok := c.db.(Restorer)
	if !ok {
		return errors.New("this database cannot be restored from a backup")
	}
	if c.reception != nil {
		c.reception.settle()
	}
	for round := range c.Restores {
		if err := c.restore(ctx, db, round); err != nil {
			return errors.Join(append(c.failures, fmt.Errorf("round %d: %w", round+1, err))...)
		}
		fmt.Printf("Round %d of restores: every consumer got truncated, and has the whole log.\n", round+1)
	}
	return errors.Join(c.failures...)
}

// emitFor runs the emitters for a duration.
func (c *Campaign) emitFor(ctx context.Context, name string, d time.Duration) {
	busy, stop := context.WithTimeout(ctx, d)
	defer stop()
	var work sync.WaitGroup
	for i := range c.Emitters {
		e := c.emitter(fmt.Sprintf("%s-%d", name, i), i)
		work.Go(func() { e.run(busy) })
	}
	work.Wait()
}

func (c *Campaign) restore(ctx context.Context, db Restorer, round int) error {
	name := fmt.Sprintf("r%d", round)
	c.emitFor(ctx, name+"-before", emitTime)
	if err := c.waitCurrent(ctx); err != nil {
		return err
	}
	if err := db.Backup(ctx); err != nil {
		return err
	}
	c.emitFor(ctx, name+"-lost", emitTime)
	if err := c.waitCurrent(ctx); err != nil {
		return err
	}
	gaps := map[consumer]int{}
	for _, x := range c.consumers {
		r := x.result()
		r.mu.Lock()
		gaps[x] = r.truncated
		r.mu.Unlock()
	}
	for _, s := range c.slots {
		s.Lock()
		if round%2 == 0 {
			s.kill()
		} else if err := s.end(); err != nil {
			return err
		}
	}
	if err := db.Restore(ctx); err != nil {
		return err
	}
	if c.reception != nil {
		c.reception.forgetRotations()
	}
	began := time.Now()
	stand, err := c.db.Log(ctx)
	if err != nil {
		return err
	}
	standing := map[string]bool{}
	for _, id := range stand {
		standing[id] = true
	}
	c.ledger.forget(standing)
	for _, s := range c.slots {
		if err := s.restart(ctx); err != nil {
			return err
		}
		s.Unlock()
	}
	after := emitTime / 3
	if round%2 == 1 {
		after = 3 * emitTime
	}
	c.emitFor(ctx, name+"-after", after)
	for end := time.Now().Add(recoveryTime); ; time.Sleep(100 * time.Millisecond) {
		if err = c.checkRestored(ctx, gaps, began); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// waitCurrent waits until every consumer has received all acknowledged occurrences.
func (c *Campaign) waitCurrent(ctx context.Context) (err error) {
	for end := time.Now().Add(settleTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		err = nil
		for _, x := range c.consumers {
			if missing := x.result().missing(c.ledger.expected(x.result().severity)); len(missing) > 0 {
				err = errors.Join(err, fmt.Errorf("%s of %q misses %d, for example %s", x.result().kind, x.result().severity, len(missing), missing[0]))
			}
		}
		if err == nil {
			return nil
		}
	}
	return errors.Join(err, ctx.Err())
}

// checkRestored returns an error unless every consumer has been notified of the restore and has received all later
// occurrences. After the gap, a consumer must have received the whole log. A client that removes repetitions must not
// miss any occurrence. gaps contains the number of earlier gaps of each consumer.
func (c *Campaign) checkRestored(ctx context.Context, gaps map[consumer]int, began time.Time) (err error) {
	log, err := c.db.Log(ctx)
	if err != nil {
		return err
	}
	for _, x := range c.consumers {
		r := x.result()
		missing := r.missing(c.ledger.expected(r.severity))
		var want []string
		for _, id := range log {
			if e, ok := c.ledger.get(id); ok && (r.severity == "" || e.Severity == r.severity) {
				want = append(want, id)
			}
		}
		r.mu.Lock()
		truncated, since, exact, fatal := r.truncated-gaps[x], slices.Clone(r.order[r.gapAt:]), r.exact, r.fatal
		r.mu.Unlock()
		if h, ok := x.(*hook); ok {
			exact, since = true, c.reception.acceptedSince(h.endpoint.Path(), began)
			slices.Sort(since)
			since = slices.Compact(since)
			slices.Sort(want)
		}
		switch who := fmt.Sprintf("%s of %q", r.kind, r.severity); {
		case fatal != nil:
			return fmt.Errorf("%s: %w", who, fatal)
		case truncated == 0:
			err = errors.Join(err, fmt.Errorf("%s did not get truncated after the restore", who))
		case len(missing) > 0:
			err = errors.Join(err, fmt.Errorf("%s misses %d that were acknowledged, for example %s", who, len(missing), missing[0]))
		case exact && !slices.Equal(since, want):
			err = errors.Join(err, fmt.Errorf("%s has %d entries since the gap, but the log has %d", who, len(since), len(want)))
		}
	}
	return err
}

// acceptedSince returns the IDs of occurrences that an endpoint has accepted in attempts that began after began.
func (r *reception) acceptedSince(path string, began time.Time) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		if a.receiver == path && a.accepted && a.begin.After(began) {
			ids = append(ids, a.event)
		}
	}
	return ids
}
