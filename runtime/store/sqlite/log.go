package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Log is a [store.EventLog] in a [Store].
type Log struct {
	s    *Store
	id   int64
	name string

	mu      sync.Mutex
	epoch   uint64
	options store.LogOptions
	head    store.Position
	oldest  store.Position // first in the file that retention covered when last looked at
	stamp   time.Time      // when oldest was appended, or earlier; zero when unknown
	deleted store.Position // everything up to it has been deleted
	proof   uint32         // of the entry at deleted, 0 when unknown
	tail    recent.Entries // the last up to head
}

// OpenLog implements [store.Store].
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	if o.MaxBytes > 0 {
		return nil, fmt.Errorf("open log %s: MaxBytes is %d, but only logs in memory have it", name, o.MaxBytes)
	}
	s.mu.Lock()
	if l := s.logs[name]; l != nil && !s.closed {
		s.mu.Unlock()
		l.mu.Lock()
		l.options = o
		l.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	l := &Log{s: s, name: name, options: o}
	err := s.writer.do(ctx, func(ctx context.Context, w *session) error { return l.open(ctx, w) }, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if first := s.logs[name]; first != nil { // opened twice at once: one of them is the log
			l = first
			return
		}
		s.logs[name] = l
	})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", name, err)
	}
	return l, nil
}

func (l *Log) open(ctx context.Context, w *session) error {
	var epoch, head, oldest int64
	err := w.row(ctx, "SELECT id, epoch, head, oldest, evicted FROM logs WHERE name = ?", []any{l.name}, &l.id, &epoch, &head, &oldest, &l.proof)
	if errors.Is(err, sql.ErrNoRows) {
		oldest, epoch = 1, int64(newNumber())
		err = w.row(ctx, "INSERT INTO logs (name, epoch) VALUES (?, ?) RETURNING id", []any{l.name, epoch}, &l.id)
	}
	if err != nil {
		return err
	}
	if head < 0 || epoch == 0 || oldest < 1 || oldest > head+1 {
		return fmt.Errorf("%w: %s has head %d, oldest %d and epoch %d", ErrCorrupt, l.name, head, oldest, epoch)
	}
	l.epoch, l.head = uint64(epoch), store.Position(head)
	var first, last, stamp int64
	err = w.row(ctx, "SELECT position, appended, (SELECT max(position) FROM entries WHERE log = ?1) FROM entries WHERE log = ?1 ORDER BY position LIMIT 1",
		[]any{l.id}, &first, &stamp, &last)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		l.oldest, l.deleted = l.head+1, l.head
		return nil
	case err != nil:
		return err
	case last != head:
		return fmt.Errorf("%w: %s holds entry %d and its head is %d", ErrCorrupt, l.name, last, head)
	}
	l.oldest, l.deleted, l.stamp = store.Position(max(first, oldest)), store.Position(first-1), time.Unix(0, stamp)
	return nil
}

// visible moves the head and calls the observer; it runs in the order of the positions.
func (l *Log) visible(entries []store.Entry, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.oldest == entries[0].Position {
		l.stamp = now
	}
	l.head = entries[len(entries)-1].Position
	l.tail.Add(entries...)
	l.count()
	if l.options.Appended != nil {
		l.options.Appended(entries)
	}
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// Bounds implements [store.EventLog]; it never fails.
func (l *Log) Bounds(context.Context) (oldest, head store.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retain()
	return l.oldest, l.head, nil
}

// count moves oldest past what is too much; l.mu is held.
func (l *Log) count() {
	n := store.Position(max(l.options.MaxCount, 0))
	if n == 0 || l.head-l.oldest+1 <= n {
		return
	}
	l.oldest = l.head - n + 1
	if l.oldest > l.deleted+sweepSoon {
		l.s.sweeper.hurry()
	}
}

// retain moves oldest past what retention does not cover; l.mu is held. It reads the file only after the oldest entry has
// expired.
func (l *Log) retain() {
	l.count()
	if l.options.MaxAge <= 0 || l.oldest > l.head {
		return
	}
	limit := time.Now().Add(-l.options.MaxAge)
	if !l.stamp.IsZero() && !l.stamp.Before(limit) {
		return
	}
	var position, stamp int64
	err := l.s.read.QueryRow("SELECT position, appended FROM entries WHERE log = ? AND position >= ? AND appended >= ? ORDER BY position LIMIT 1",
		l.id, int64(l.oldest), limit.UnixNano()).Scan(&position, &stamp)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		l.oldest, l.stamp = l.head+1, time.Time{}
	case err == nil:
		l.oldest, l.stamp = store.Position(position), time.Unix(0, stamp)
	}
	// Any other failure leaves the bound where it was: too much is retained, never too little.
}

// Read implements [store.EventLog].
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	db, err := l.s.queries(ctx)
	if err != nil {
		return store.Batch{}, err
	}
	for {
		l.mu.Lock()
		l.retain()
		b := store.Batch{Oldest: l.oldest, Head: l.head}
		from := max(after, l.oldest-1)
		b.Gap = from > after
		if from >= l.head || limit <= 0 {
			l.mu.Unlock()
			return b, nil
		}
		tail := l.tail.All()
		if first := l.head - store.Position(len(tail)) + 1; from+1 >= first {
			i := int(from + 1 - first)
			to := min(i+limit, len(tail))
			b.Entries = tail[i:to:to]
			l.mu.Unlock()
			return b, nil
		}
		l.mu.Unlock()
		want := min(b.Head, from+store.Position(limit))
		cut := false
		if b.Entries, cut, err = l.query(ctx, db, from, want); err != nil {
			return store.Batch{}, classify(err)
		}
		if cut {
			want = from + store.Position(len(b.Entries))
		}
		if err = l.whole(b.Entries, from, want); err == nil {
			return b, nil
		}
		if oldest, _, _ := l.Bounds(ctx); oldest <= from+1 {
			return store.Batch{}, err
		}
		// Evicted and deleted since the bounds were looked at: look again.
	}
}

// Proof implements [store.EventLog].
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	db, err := l.s.queries(ctx)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.retain()
	head, oldest, deleted, proof, tail := l.head, l.oldest, l.deleted, l.proof, l.tail.All()
	l.mu.Unlock()
	switch first := head - store.Position(len(tail)) + 1; {
	case p == 0 || p > head || p+1 < oldest:
		return 0, nil
	case p >= first:
		return tail[p-first].Proof(), nil
	case p == deleted:
		return proof, nil
	}
	entries, _, err := l.query(ctx, db, p-1, p)
	if err != nil || len(entries) == 0 { // none was deleted meanwhile
		return 0, classify(err)
	}
	return entries[0].Proof(), nil
}

// whole checks that the entries are those after one position up to another.
func (l *Log) whole(entries []store.Entry, after, to store.Position) error {
	for i := range entries {
		if entries[i].Position != after+store.Position(i)+1 {
			entries = entries[:i]
			break
		}
	}
	if n := store.Position(len(entries)); n < to-after {
		return fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, after+n+1, l.name)
	}
	return nil
}

// query reads the entries after one position up to another from the file; cut tells that it stopped because they
// are large.
func (l *Log) query(ctx context.Context, db *sql.DB, after, to store.Position) (entries []store.Entry, cut bool, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+entryColumns+" FROM entries WHERE log = ? AND position > ? AND position <= ? ORDER BY position",
		l.id, int64(after), int64(to))
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for bytes := 0; rows.Next(); {
		e, err := l.scanEntry(rows)
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, e)
		if bytes += recent.Size(&e); bytes >= recent.Bytes {
			return entries, true, nil
		}
	}
	return entries, false, rows.Err()
}
