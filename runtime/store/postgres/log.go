package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// tailMax is how many of a log's last entries stay in memory, where most reads end.
	tailMax = 1024
	// pageMax bounds how many entries one query reads.
	pageMax = 512
	// maxName bounds a log's name.
	maxName = 1024
)

// A Log is a [store.SharedLog] in a [Store].
type Log struct {
	s       *Store
	id      int64
	name    string
	life    int64 // the store's generation that it is of
	epoch   uint64
	appends appends
	turn    chan struct{} // capacity 1: who has it may move the head

	mu      sync.Mutex
	options store.LogOptions
	head    store.Position // the last that Appended was told
	kept    store.Position // everything up to it may have been deleted
	oldest  store.Position // the first within MaxAge when last looked at
	fresh   time.Time      // until then oldest is young enough; zero when it has to be looked for
	tail    []store.Entry  // the last entries up to head; grows at its end only
	seen    time.Time
	ended   bool // its generation is over

	following, again bool // see begin

	next  *round // the question that has not begun
	asked time.Time
}

// OpenLog implements [store.Store].
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	if name == "" || len(name) > maxName {
		return nil, fmt.Errorf("open log: its name has 1 to %d bytes, this one %d", maxName, len(name))
	}
	var l *Log
	err := s.attempt(ctx, func(ctx context.Context) (err error) {
		l, err = s.openLog(ctx, name, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", name, classify(err))
	}
	return l, nil
}

func (s *Store) openLog(ctx context.Context, name string, o store.LogOptions) (*Log, error) {
	generation, _ := s.life()
	l := &Log{s: s, name: name, life: generation, options: o, turn: make(chan struct{}, 1)}
	l.appends.log = l
	asked := time.Now()
	var epoch, head, kept int64
	err := s.pool.QueryRow(ctx, s.in(`INSERT INTO @.logs AS l (name, epoch, max_age, max_count) VALUES ($1, $2, $3, $4)
		ON CONFLICT (name) DO UPDATE SET max_age = excluded.max_age, max_count = excluded.max_count
		RETURNING id, epoch, head, kept`), name, newEpoch(), max(int64(o.MaxAge), 0), max(int64(o.MaxCount), 0)).
		Scan(&l.id, &epoch, &head, &kept)
	if err != nil {
		return nil, err
	}
	l.epoch = epochIn(uint64(epoch), generation)
	l.head, l.kept, l.oldest, l.seen = store.Position(head), store.Position(kept), store.Position(kept)+1, asked
	s.mu.Lock()
	defer s.mu.Unlock()
	switch first := s.logs[name]; {
	case s.closed:
		return nil, store.ErrClosed
	case s.generation != generation:
		return nil, store.ErrNewEpoch
	case first != nil:
		first.mu.Lock()
		defer first.mu.Unlock()
		first.options, first.fresh, first.oldest = o, time.Time{}, first.kept+1
		return first, nil
	}
	s.logs[name] = l
	return l, nil
}

// newEpoch is what a new log's epochs come from.
func newEpoch() int64 { return int64(rand.Uint64()) }

// epochIn is the epoch of a log in a generation of the store (REP-19).
func epochIn(stored uint64, generation int64) uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], stored)
	binary.BigEndian.PutUint64(b[8:], uint64(generation))
	sum := sha256.Sum256(b[:])
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// end makes every later call return store.ErrNewEpoch.
func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *Log) usable(ctx context.Context) error {
	if err := l.s.usable(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return store.ErrNewEpoch
	}
	return nil
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.epoch }

// Seen implements [store.SharedLog].
func (l *Log) Seen() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Bounds implements [store.EventLog]. It asks the database only when the entry that was the oldest
// has become too old.
func (l *Log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	if err := l.usable(ctx); err != nil {
		return 0, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		from, head, age := l.bound(), l.head, l.options.MaxAge
		if age <= 0 || from > head || time.Now().Before(l.fresh) {
			return from, head, nil
		}
		l.mu.Unlock()
		first, fresh, err := l.findOldest(ctx, from, age)
		l.mu.Lock()
		switch {
		case err != nil:
			return 0, 0, err
		case l.options.MaxAge != age: // it was opened again
		case first > 0:
			l.oldest, l.fresh = max(l.oldest, first), fresh
			return l.bound(), l.head, nil
		default: // nothing is young enough, but for what was appended meanwhile
			l.oldest = max(l.oldest, head+1)
		}
	}
}

// bound is the oldest position by what is known; l.mu is held.
func (l *Log) bound() store.Position {
	oldest := max(l.oldest, l.kept+1)
	if n := store.Position(max(l.options.MaxCount, 0)); n > 0 && l.head > n {
		oldest = max(oldest, l.head-n+1)
	}
	return min(oldest, l.head+1)
}

// findOldest asks for the first entry from a position on that is not older than age, and until when
// it will not be. 0 means that there is none.
func (l *Log) findOldest(ctx context.Context, from store.Position, age time.Duration) (first store.Position, fresh time.Time, err error) {
	asked := time.Now()
	err = l.s.query(ctx, func(r pgx.CollectableRow) error {
		var position int64
		var left float64
		if err := r.Scan(&position, &left); err != nil {
			return err
		}
		first, fresh = store.Position(position), asked.Add(time.Duration(left*float64(time.Second)))
		return nil
	}, `SELECT e.position, extract(epoch FROM e.appended + $3 * interval '1 microsecond' - now.t)::float8
		FROM (SELECT clock_timestamp() AS t) AS now, LATERAL (
			SELECT position, appended FROM @.entries WHERE log = $1 AND position >= $2
				AND appended >= now.t - $3 * interval '1 microsecond' ORDER BY position LIMIT 1) AS e`,
		l.id, int64(from), float64(age.Microseconds()))
	return first, fresh, err
}

// Read implements [store.EventLog].
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	for {
		oldest, head, err := l.Bounds(ctx)
		if err != nil {
			return store.Batch{}, err
		}
		b := store.Batch{Oldest: oldest, Head: head}
		from := max(after, oldest-1)
		b.Gap = from > after
		if from >= head || limit <= 0 {
			return b, nil
		}
		want := min(head, from+store.Position(limit))
		if b.Entries = l.recent(from, want); b.Entries != nil {
			return b, nil
		}
		if b.Entries, err = l.page(ctx, from, want); err != nil {
			return store.Batch{}, err
		}
		if store.Position(len(b.Entries)) == want-from {
			return b, nil
		}
		// Fewer: they were deleted since, or they are missing.
		kept, err := l.look(ctx)
		if err != nil {
			return store.Batch{}, err
		}
		if kept <= from {
			return store.Batch{}, fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, from+1+store.Position(len(b.Entries)), l.name)
		}
	}
}

// recent returns the entries after a position up to another when they are in memory, else nil.
func (l *Log) recent(after, to store.Position) []store.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.head - store.Position(len(l.tail)) + 1
	if after+1 < first {
		return nil
	}
	i, j := int(after+1-first), int(to+1-first)
	return l.tail[i:j:j]
}

// page reads the entries after a position up to another, query by query; it ends at the first hole.
func (l *Log) page(ctx context.Context, after, to store.Position) (entries []store.Entry, err error) {
	for after < to {
		upTo := min(to, after+pageMax)
		some, err := l.query(ctx, after, upTo)
		if err != nil {
			return nil, err
		}
		entries = append(entries, some...)
		if store.Position(len(some)) < upTo-after {
			break
		}
		after = upTo
	}
	return entries, nil
}

// query reads the entries after a position up to another that follow each other from the first on.
func (l *Log) query(ctx context.Context, after, to store.Position) (entries []store.Entry, err error) {
	err = l.s.attempt(ctx, func(ctx context.Context) error {
		entries = entries[:0]
		rows, err := l.s.pool.Query(ctx, l.s.in(`SELECT position, event_id, timestamp, data, meta, targets, cursor FROM @.entries
			WHERE log = $1 AND position > $2 AND position <= $3 ORDER BY position`), l.id, int64(after), int64(to))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			e, err := l.scan(rows)
			if err != nil {
				return err
			}
			if e.Position != after+store.Position(len(entries))+1 {
				break
			}
			entries = append(entries, e)
		}
		rows.Close()
		return rows.Err()
	})
	return entries, classify(err)
}

func (l *Log) scan(row pgx.CollectableRow) (e store.Entry, err error) {
	var position int64
	var id, targets, cursor, data, meta []byte
	var timestamp string
	if err := row.Scan(&position, &id, &timestamp, &data, &meta, &targets, &cursor); err != nil {
		return e, err
	}
	e = store.Entry{Position: store.Position(position), EventID: string(id), Data: data, Meta: meta, Cursor: string(cursor)}
	if e.Timestamp, err = events.ParseTime(timestamp); err != nil {
		return e, fmt.Errorf("%w: entry %d of %s: %w", ErrCorrupt, position, l.name, err)
	}
	if targets != nil {
		if err := json.Unmarshal(targets, &e.Targets); err != nil || e.Targets == nil {
			return e, fmt.Errorf("%w: entry %d of %s: its targets cannot be read", ErrCorrupt, position, l.name)
		}
	}
	return e, nil
}

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

// spawn runs f in a goroutine of the store's unless that has been closed.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
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
