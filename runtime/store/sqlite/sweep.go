package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	// sweepInterval is the time between sweeps.
	sweepInterval = time.Minute
	// maxSweep is the maximum number of entries that one write deletes. It prevents a sweep from delaying other writes.
	maxSweep = 1024
	// sweepThreshold is the number of evicted entries at which an append triggers a sweep.
	sweepThreshold = 256
)

// A sweeper deletes evicted entries from the file. Readers never receive evicted entries, even before they are deleted.
// The sweeper's goroutine belongs to the Store and ends in Close.
type sweeper struct {
	store  *Store
	logger *slog.Logger
	stop   context.CancelFunc
	ended  chan struct{}
	soon   chan struct{} // capacity 1
}

func newSweeper(s *Store, logger *slog.Logger) *sweeper {
	ctx, cancel := context.WithCancel(context.Background())
	w := &sweeper{store: s, logger: logger, stop: cancel, ended: make(chan struct{}), soon: make(chan struct{}, 1)}
	go w.run(ctx)
	return w
}

func (w *sweeper) run(ctx context.Context) {
	defer close(w.ended)
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.soon:
		}
		w.store.mu.Lock()
		logs := slices.Collect(maps.Values(w.store.logs))
		w.store.mu.Unlock()
		for _, l := range logs {
			if err := l.sweep(ctx); err != nil && !errors.Is(err, context.Canceled) {
				// The next sweep retries: a full disk may have space by then.
				w.logger.Warn("mcp events: deleting expired entries failed", "log", l.name, "error", err)
			}
		}
	}
}

// trigger starts a sweep.
func (w *sweeper) trigger() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

func (w *sweeper) close() {
	w.stop()
	<-w.ended
}

// sweep deletes the log's evicted entries in steps.
func (l *Log) sweep(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = l.sweepSome(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stuck := l.stuck
	l.stuck = 0
	if stuck > 0 {
		return fmt.Errorf("%w: %d evicted entries up to %d cannot be deleted, because their pages or adjacent ones are damaged", ErrCorrupt, stuck, l.deleted)
	}
	return nil
}

// sweepSome deletes up to l.step evicted entries and reports whether more may remain. If damaged pages prevent the
// deletion of an entry, sweepSome reduces the step size until it can skip that entry.
func (l *Log) sweepSome(ctx context.Context) (more bool, err error) {
	l.mu.Lock()
	l.applyRetention()
	from := l.deleted
	upTo := min(l.oldest-1, from+l.step)
	l.mu.Unlock()
	if upTo <= from {
		return false, nil
	}
	last, err := l.Proof(ctx, upTo)
	if err != nil {
		return false, err
	}
	err = l.s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "DELETE FROM entries WHERE log = ? AND position > ? AND position <= ?", l.id, int64(from), int64(upTo)); err != nil {
			return err
		}
		_, err := w.exec(ctx, "UPDATE logs SET evicted = ? WHERE id = ?", last, l.id)
		return err
	}, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch damaged := errors.Is(err, ErrCorrupt); {
	case damaged && upTo-from > 1:
		l.step = (upTo - from) / 2
		return true, nil
	case damaged:
		l.stuck++
	case err != nil:
		return false, err
	default:
		l.step = min(2*l.step, maxSweep)
	}
	if upTo > l.deleted {
		l.deleted, l.proof = upTo, last
	}
	return l.deleted < l.oldest-1, nil
}
