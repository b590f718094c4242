package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	// sweepEvery is how often expired entries are looked for.
	sweepEvery = time.Minute
	// sweepStep is how many entries one write deletes at most: what waits beside it is not held up.
	sweepStep = 1024
	// sweepSoon is how many evicted entries gather before an append has them deleted at once.
	sweepSoon = 256
)

// A sweeper deletes from the file what retention no longer covers. Such entries are never shown,
// deleted or not. Its goroutine belongs to the Store and ends in Close.
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
	ticker := time.NewTicker(sweepEvery)
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
				// The next turn tries again: a disk that was full may not be full any more.
				w.logger.Warn("mcp events: deleting expired entries failed", "log", l.name, "error", err)
			}
		}
		if err := w.store.engine.sweep(ctx); err != nil && !errors.Is(err, context.Canceled) {
			w.logger.Warn("mcp events: deleting expired records failed", "error", err)
		}
	}
}

// hurry makes a turn begin now.
func (w *sweeper) hurry() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

func (w *sweeper) close() {
	w.stop()
	<-w.ended
}

// sweep deletes the log's evicted entries, step by step.
func (l *Log) sweep(ctx context.Context) error {
	for {
		if more, err := l.sweepSome(ctx); !more || err != nil {
			return err
		}
	}
}

// sweepSome deletes up to sweepStep evicted entries and tells whether there may be more.
func (l *Log) sweepSome(ctx context.Context) (more bool, err error) {
	l.mu.Lock()
	l.retain()
	upTo := min(l.oldest-1, l.deleted+sweepStep)
	none := upTo <= l.deleted
	l.mu.Unlock()
	if none {
		return false, nil
	}
	last, err := l.Proof(ctx, upTo)
	if err != nil && !errors.Is(err, ErrCorrupt) { // what is damaged goes, and proves nothing
		return false, err
	}
	err = l.s.writer.do(ctx, func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "DELETE FROM entries WHERE log = ? AND position <= ?", l.id, int64(upTo)); err != nil {
			return err
		}
		_, err := w.exec(ctx, "UPDATE logs SET evicted = ? WHERE id = ?", last, l.id)
		return err
	}, nil)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if upTo > l.deleted {
		l.deleted, l.proof = upTo, last
	}
	return l.deleted < l.oldest-1, nil
}
