package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// CatchUp implements [store.SharedLog].
func (l *Log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	if err := l.usable(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	if p <= l.head || p > math.MaxInt64 {
		defer l.mu.Unlock()
		return l.head, nil
	}
	r, begins := l.next, l.next == nil
	if begins {
		r = &round{done: make(chan struct{})}
		l.next = r
	}
	l.mu.Unlock()
	if begins && !l.s.spawn(func() { l.ask(r) }) {
		r.err = store.ErrClosed
		close(r.done)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if r.err != nil {
		return 0, r.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head, nil
}

// askEvery is the least time between two questions of a log.
const askEvery = 100 * time.Millisecond

// A round is one question for the head that any number wait for.
type round struct {
	done chan struct{}
	err  error
}

func (l *Log) ask(r *round) {
	defer close(r.done)
	l.mu.Lock()
	wait := time.Until(l.asked.Add(askEvery))
	l.mu.Unlock()
	select {
	case <-time.After(max(wait, 0)):
	case <-l.s.ctx.Done():
	}
	l.mu.Lock()
	l.next, l.asked = nil, time.Now()
	l.mu.Unlock()
	ctx, cancel := l.s.limited(l.s.ctx)
	defer cancel()
	_, r.err = l.look(ctx)
}

// look asks the database for the head and tells Appended of what is new. It returns up to where
// entries may have been deleted.
func (l *Log) look(ctx context.Context) (kept store.Position, err error) {
	heads, err := l.s.heads(ctx, []int64{l.id})
	if err != nil {
		return 0, err
	}
	h := heads[l.id]
	return h.kept, l.follow(ctx, h)
}

// A head is what a log's row said at a time.
type head struct {
	at         time.Time // before it was asked for
	head, kept store.Position
	maxAge     time.Duration
	maxCount   int
}

// heads asks for the rows of logs.
func (s *Store) heads(ctx context.Context, ids []int64) (map[int64]head, error) {
	s.questions.Add(1)
	at := time.Now()
	found := make(map[int64]head, len(ids))
	err := s.query(ctx, func(r pgx.CollectableRow) error {
		var id, last, kept, age, count int64
		if err := r.Scan(&id, &last, &kept, &age, &count); err != nil {
			return err
		}
		found[id] = head{at, store.Position(last), store.Position(kept), time.Duration(age), int(count)}
		return nil
	}, `SELECT id, head, kept, max_age, max_count FROM @.logs WHERE id = ANY ($1)`, ids)
	return found, err
}

// follow takes over what a log's row said: it tells Appended up to its head.
func (l *Log) follow(ctx context.Context, h head) error {
	l.mu.Lock()
	l.kept = max(l.kept, h.kept)
	if l.options.MaxAge != h.maxAge || l.options.MaxCount != h.maxCount { // another replica has opened it since
		if h.maxAge > l.options.MaxAge || h.maxAge == 0 {
			l.oldest = l.kept + 1
		}
		l.options.MaxAge, l.options.MaxCount, l.fresh = h.maxAge, h.maxCount, time.Time{}
	}
	l.mu.Unlock()
	if err := l.advance(ctx, h.head, nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.at.After(l.seen) {
		l.seen = h.at
	}
	return nil
}

// advance tells Appended of every entry up to a committed position, in order. own are some that need
// not be read; they follow each other and end at that position.
func (l *Log) advance(ctx context.Context, to store.Position, own []store.Entry) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		l.mu.Lock()
		at, ended := l.head, l.ended
		l.mu.Unlock()
		switch {
		case ended:
			return store.ErrNewEpoch
		case at >= to:
			return nil
		case len(own) > 0 && own[0].Position <= at+1:
			l.tell(own[at+1-own[0].Position:])
			return nil
		}
		upTo := min(to, at+pageMax)
		if len(own) > 0 {
			upTo = min(upTo, own[0].Position-1)
		}
		some, err := l.query(ctx, at, upTo)
		if err != nil {
			return err
		}
		if len(some) > 0 {
			l.tell(some)
			continue
		}
		if err := l.skip(ctx, at); err != nil {
			return err
		}
	}
}

// skip moves past entries that retention deleted before they could be read.
func (l *Log) skip(ctx context.Context, at store.Position) error {
	heads, err := l.s.heads(ctx, []int64{l.id})
	if err != nil {
		return err
	}
	kept := heads[l.id].kept
	if kept <= at {
		return fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, at+1, l.name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.kept, l.tail = kept, max(l.kept, kept), nil
	return nil
}

// tell makes entries that follow the head visible.
func (l *Log) tell(entries []store.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = entries[len(entries)-1].Position
	if len(l.tail)+len(entries) > 2*tailMax {
		keep := l.tail[max(len(l.tail)-tailMax, 0):]
		l.tail = append(make([]store.Entry, 0, 2*tailMax+len(entries)), keep...)
	}
	l.tail = append(l.tail, entries...)
	if l.options.Appended != nil {
		l.options.Appended(entries)
	}
}
