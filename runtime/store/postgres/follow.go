package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// CatchUp implements [engine.Log].
func (l *Log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	if err := l.checkOpen(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	if p <= l.head || p > math.MaxInt64 {
		defer l.mu.Unlock()
		return l.head, nil
	}
	r, begins := l.joinQuery()
	l.mu.Unlock()
	if err := l.waitFor(ctx, r, begins); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head, nil
}

// minQueryInterval is the minimum time between two queries for the head of a log.
const minQueryInterval = 100 * time.Millisecond

// A headQuery is a query for a log's head and for proofs of entries. Any number of callers can share it.
type headQuery struct {
	done   chan struct{}
	proofs map[store.Position]uint32 // of the positions that callers requested
	err    error
}

// joinQuery returns the pending headQuery, which has not yet begun. If begins is true, the caller must start it. The
// caller must hold l.mu.
func (l *Log) joinQuery() (r *headQuery, begins bool) {
	if l.next != nil {
		return l.next, false
	}
	l.next = &headQuery{done: make(chan struct{}), proofs: map[store.Position]uint32{}}
	return l.next, true
}

// waitFor waits until the query is complete, and starts it if begins is set.
func (l *Log) waitFor(ctx context.Context, r *headQuery, begins bool) error {
	if begins && !l.s.spawn(func() { l.ask(r) }) {
		r.err = store.ErrClosed
		close(r.done)
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) ask(r *headQuery) {
	defer close(r.done)
	l.mu.Lock()
	wait := time.Until(l.asked.Add(minQueryInterval))
	l.mu.Unlock()
	select {
	case <-time.After(max(wait, 0)):
	case <-l.s.ctx.Done():
	}
	l.mu.Lock()
	l.next, l.asked = nil, time.Now()
	l.mu.Unlock()
	ctx, cancel := l.s.withTimeout(l.s.ctx)
	defer cancel()
	if _, r.err = l.followHead(ctx); r.err == nil && len(r.proofs) > 0 {
		r.err = l.prove(ctx, r.proofs)
	}
}

// followHead reads the head from the database and delivers new entries to Appended. It returns the position up to which
// entries might have been deleted.
func (l *Log) followHead(ctx context.Context) (kept store.Position, err error) {
	heads, err := l.s.readHeads(ctx, l)
	if err != nil {
		return 0, err
	}
	h := heads[l]
	return h.kept, l.follow(ctx, h, nil)
}

// A head is a snapshot of a log's row.
type head struct {
	at         time.Time // before the query
	head, kept store.Position
	maxAge     time.Duration
	maxCount   int
}

// readHeads reads the rows of logs. It returns engine.ErrNewEpoch if a log no longer exists, if a log lacks delivered
// entries, or if the store is in another incarnation.
func (s *Store) readHeads(ctx context.Context, logs ...*Log) (map[*Log]head, error) {
	s.questions.Add(1)
	as, _ := s.currentIncarnation()
	now := as
	at := time.Now()
	byID := make(map[int64]*Log, len(logs))
	ids, anchors := make([]int64, len(logs)), make([]int64, len(logs))
	told, proofs := make(map[*Log]anchor, len(logs)), make(map[*Log]uint32, len(logs))
	for i, l := range logs {
		byID[l.id], ids[i] = l, l.id
		l.mu.Lock()
		anchors[i], proofs[l], told[l] = int64(l.anchor.position), l.anchor.proof, l.lastDelivered()
		l.mu.Unlock()
	}
	found := make(map[*Log]head, len(logs))
	var lost *Log
	err := s.query(ctx, func(r pgx.CollectableRow) error {
		var id, last, kept, age, count, proof int64
		if err := r.Scan(&id, &last, &kept, &age, &count, &proof, &now.generation, &now.salt); err != nil {
			return err
		}
		l := byID[id]
		found[l] = head{at, store.Position(last), store.Position(kept), time.Duration(age), int(count)}
		if last < int64(told[l].position) || proof != 0 && proofs[l] != 0 && uint32(proof) != proofs[l] {
			lost = l
		}
		return nil
	}, `SELECT log, head, kept, max_age, max_count, proof, generation, salt FROM @.look($1, $2)`, ids, anchors)
	switch {
	case err != nil:
		return nil, err
	case now != as:
		if err := s.joinGeneration(ctx); err != nil {
			return nil, classify(err)
		}
		return nil, engine.ErrNewEpoch
	}
	for _, l := range logs {
		if _, there := found[l]; !there { // the log is newer than the backup that was restored
			lost = l
		}
	}
	if lost != nil {
		return nil, s.beginAfterRestore(ctx, as, lost.name, found[lost].head, told[lost].position)
	}
	for l, a := range told {
		if a.proof != 0 {
			l.mu.Lock()
			l.anchor = a
			l.mu.Unlock()
		}
	}
	return found, nil
}

// readNewest reads, in one query, the entries of logs that have not yet been passed to Appended. It omits logs with too
// many entries.
func (s *Store) readNewest(ctx context.Context, logs []*Log, heads map[*Log]head) (map[*Log][]store.Entry, error) {
	var ids, after, upTo []int64
	byID := map[int64]*Log{}
	for _, l := range logs {
		l.mu.Lock()
		at := l.head
		l.mu.Unlock()
		if to := heads[l].head; to > at {
			ids, after, upTo, byID[l.id] = append(ids, l.id), append(after, int64(at)), append(upTo, int64(to)), l
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	read := map[*Log][]store.Entry{}
	err := s.query(ctx, func(row pgx.CollectableRow) error {
		var id int64
		e, err := s.scanEntry(row, func() string { return byID[id].name }, &id)
		if err != nil {
			return err
		}
		some := read[byID[id]]
		if len(some) > 0 && e.Position != some[len(some)-1].Position+1 {
			return nil // retention has deleted entries in between, or a retry repeats them
		}
		read[byID[id]] = append(some, e)
		return nil
	}, `SELECT log, position, event_id, timestamp, data, meta, targets, cursor FROM @.newest($1, $2, $3, $4)`, ids, after, upTo, int64(recent.Bytes))
	return read, err
}

// follow applies a snapshot of a log's row and delivers entries to Appended up to its head. The argument read contains
// entries that have already been read.
func (l *Log) follow(ctx context.Context, h head, read []store.Entry) error {
	l.mu.Lock()
	l.kept = max(l.kept, h.kept)
	if l.options.MaxAge != h.maxAge || l.options.MaxCount != h.maxCount { // another replica has opened it since
		if h.maxAge > l.options.MaxAge || h.maxAge == 0 {
			l.oldest = l.kept + 1
		}
		l.options.MaxAge, l.options.MaxCount, l.fresh = h.maxAge, h.maxCount, time.Time{}
	}
	l.mu.Unlock()
	if len(read) > 0 {
		if err := l.advance(ctx, read[len(read)-1].Position, read); err != nil {
			return err
		}
	}
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

// advance delivers every entry up to a committed position to Appended, in order. The argument own contains
// consecutive entries, which advance does not need to read.
func (l *Log) advance(ctx context.Context, to store.Position, own []store.Entry) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		at, err := l.deliver(own)
		if err != nil || at >= to {
			return err
		}
		upTo := min(to, at+maxPage)
		if len(own) > 0 && own[0].Position > at {
			upTo = min(upTo, own[0].Position-1)
		}
		some, _, err := l.queryEntries(ctx, at, upTo)
		if err == nil && len(some) > 0 {
			_, err = l.deliver(some)
		} else if err == nil {
			err = l.skipDeleted(ctx, at)
		}
		if err != nil {
			return err
		}
	}
}

// tryDeliver is like advance, but returns false if it would have to query the database or wait.
func (l *Log) tryDeliver(to store.Position, own []store.Entry) bool {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	default:
		return false
	}
	at, err := l.deliver(own)
	return err == nil && at >= to
}

// skipDeleted advances the head past entries that were deleted by retention before they could be read.
func (l *Log) skipDeleted(ctx context.Context, at store.Position) error {
	heads, err := l.s.readHeads(ctx, l)
	if err != nil {
		return err
	}
	kept := heads[l].kept
	if kept <= at {
		return fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, at+1, l.name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.kept = kept, max(l.kept, kept)
	l.tail.Clear()
	return nil
}

// deliver makes those of consecutive entries that follow the head visible and passes them to Appended. It returns the
// head, which is unchanged if the first entry does not follow it.
func (l *Log) deliver(entries []store.Entry) (head store.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, engine.ErrNewEpoch
	}
	if n := len(entries); n == 0 || entries[0].Position > l.head+1 || entries[n-1].Position <= l.head {
		return l.head, nil
	}
	entries = entries[l.head+1-entries[0].Position:]
	l.head = entries[len(entries)-1].Position
	l.tail.Add(entries...)
	if l.options.Appended != nil {
		l.options.Appended(entries)
	}
	return l.head, nil
}
