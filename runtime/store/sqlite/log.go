package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Log is the [store.EventLog] implementation of a [Store].
type Log struct {
	s     *Store
	id    int64
	name  string
	epoch uint64

	mu      sync.Mutex
	options store.LogOptions
	head    store.Position
	oldest  store.Position // the first position in the file that retention covered when last checked
	stamp   time.Time      // when oldest was appended, or earlier; zero if unknown
	deleted store.Position // entries up to it are deleted or stuck
	step    store.Position // number of entries that the sweep deletes next
	stuck   int            // number of evicted entries that this sweep could not delete
	proof   uint32         // of the entry at deleted, 0 if unknown
	tail    recent.Entries // the last entries up to head
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
	l := &Log{s: s, name: name, options: o, step: maxSweep}
	err := s.writer.submit(ctx, func(ctx context.Context, w *session) error { return l.open(ctx, w) }, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if first := s.logs[name]; first != nil { // a concurrent OpenLog was first
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
	err := w.queryRow(ctx, "SELECT id, epoch, head, oldest, evicted FROM logs WHERE name = ?", []any{l.name}, &l.id, &epoch, &head, &oldest, &l.proof)
	if errors.Is(err, sql.ErrNoRows) {
		oldest, epoch = 1, int64(rand.Uint64()|1)
		err = w.queryRow(ctx, "INSERT INTO logs (name, epoch) VALUES (?, ?) RETURNING id", []any{l.name, epoch}, &l.id)
	}
	if err != nil {
		return err
	}
	if head < 0 || epoch == 0 || oldest < 1 || oldest > head+1 {
		return fmt.Errorf("%w: %s has head %d, oldest %d and epoch %d", ErrCorrupt, l.name, head, oldest, epoch)
	}
	l.epoch, l.head = uint64(epoch), store.Position(head)
	var first, last sql.NullInt64 // from the index: the entries may be damaged
	err = w.queryRow(ctx, "SELECT (SELECT min(position) FROM entries WHERE log = ?1), (SELECT max(position) FROM entries WHERE log = ?1)", []any{l.id}, &first, &last)
	switch {
	case err != nil:
		return err
	case !first.Valid:
		l.oldest, l.deleted = l.head+1, l.head
		return nil
	case last.Int64 != head:
		return fmt.Errorf("%w: %s holds entry %d and its head is %d", ErrCorrupt, l.name, last.Int64, head)
	}
	l.oldest, l.deleted = store.Position(max(first.Int64, oldest)), store.Position(first.Int64-1)
	return nil
}

// publish makes an entry visible by advancing the head and calling Appended. It must be called in order of position.
func (l *Log) publish(e store.Entry, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = e.Position
	l.tail.Add(e)
	if l.oldest == e.Position {
		l.stamp = now
	}
	l.applyMaxCount()
	if l.options.Appended != nil {
		l.options.Appended([]store.Entry{e})
	}
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.epoch }

// Bounds implements [store.EventLog]. It never fails.
func (l *Log) Bounds(context.Context) (oldest, head store.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applyRetention()
	return l.oldest, l.head, nil
}

// applyMaxCount advances oldest to enforce MaxCount. The caller must hold l.mu.
func (l *Log) applyMaxCount() {
	n := store.Position(max(l.options.MaxCount, 0))
	if n == 0 || l.head-l.oldest+1 <= n {
		return
	}
	l.oldest = l.head - n + 1
	if l.oldest > l.deleted+sweepThreshold {
		l.s.sweeper.trigger()
	}
}

// retainedQueries contains queries for the first entry within MaxAge. The second query is used if earlier entries are
// damaged, because it does not read them.
var retainedQueries = [...]string{
	"SELECT position, appended FROM entries WHERE log = ? AND position >= ? AND appended >= ? ORDER BY position LIMIT 1",
	"SELECT position, appended FROM entries INDEXED BY entries_appended WHERE log = ? AND position >= ? AND appended >= ? ORDER BY appended LIMIT 1",
}

// applyRetention advances oldest past the entries that exceed the retention limits. It reads the file only after the
// oldest entry has expired. The caller must hold l.mu.
func (l *Log) applyRetention() {
	l.applyMaxCount()
	if l.options.MaxAge <= 0 || l.oldest > l.head {
		return
	}
	limit := time.Now().Add(-l.options.MaxAge)
	if !l.stamp.IsZero() && !l.stamp.Before(limit) {
		return
	}
	var position, stamp int64
	var err error
	for _, query := range retainedQueries {
		err = l.s.read.QueryRow(query, l.id, int64(l.oldest), limit.UnixNano()).Scan(&position, &stamp)
		if !errors.Is(classify(err), ErrCorrupt) {
			break
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		l.oldest, l.stamp = l.head+1, time.Time{}
	case err == nil:
		l.oldest, l.stamp = store.Position(position), time.Unix(0, stamp)
	}
	// After any other failure, the bound is unchanged: the log may retain too many entries, but never too few.
}

// Read implements [store.EventLog].
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	db, err := l.s.readPool(ctx)
	if err != nil {
		return store.Batch{}, err
	}
	for {
		l.mu.Lock()
		l.applyRetention()
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
		b.Entries, err = l.queryEntries(ctx, db, from, min(b.Head, from+store.Position(limit)))
		if len(b.Entries) > 0 {
			return b, nil // the next read returns the error
		}
		if err = classify(err); !errors.Is(err, ErrCorrupt) {
			return store.Batch{}, err
		}
		if oldest, _, _ := l.Bounds(ctx); oldest <= from+1 {
			return store.Batch{}, &store.DamagedError{Position: from + 1, Err: err}
		}
		// The entry was evicted and deleted after the bounds were read: try again with new bounds.
	}
}

// Proof implements [store.EventLog].
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	db, err := l.s.readPool(ctx)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.applyRetention()
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
	entries, err := l.queryEntries(ctx, db, p-1, p)
	if len(entries) > 0 {
		return entries[0].Proof(), nil
	}
	if err = classify(err); errors.Is(err, ErrCorrupt) {
		err = nil // the proof is unknown
	}
	return 0, err
}

// queryEntries reads the entries with positions in (after, to] from the file. It returns fewer entries if they are
// large, and stops before a damaged or missing entry. If the first entry is damaged or missing, it returns an error.
func (l *Log) queryEntries(ctx context.Context, db *sql.DB, after, to store.Position) (entries []store.Entry, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+entryColumns+" FROM entries WHERE log = ? AND position > ? AND position <= ? ORDER BY position",
		l.id, int64(after), int64(to))
	if err != nil {
		return nil, fmt.Errorf("entry %d of %s: %w", after+1, l.name, err)
	}
	defer rows.Close()
	for bytes := 0; bytes < recent.Bytes && rows.Next(); {
		e, err := l.scanEntry(rows)
		if err != nil {
			return entries, err
		}
		if after++; e.Position != after {
			return entries, fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, after, l.name)
		}
		entries = append(entries, e)
		bytes += recent.Size(&e)
	}
	switch err := rows.Err(); {
	case err != nil:
		return entries, fmt.Errorf("entry %d of %s: %w", after+1, l.name, err)
	case len(entries) == 0:
		return nil, fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, after+1, l.name)
	}
	return entries, nil
}
