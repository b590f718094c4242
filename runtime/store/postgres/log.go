package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxPage is the maximum number of entries read per query.
	maxPage = 512
)

// A Log is the [engine.Log] implementation of a [Store].
type Log struct {
	s           *Store
	id          int64
	name        string
	incarnation incarnation // that of the store when the log was opened
	epoch       uint64
	appendQueue               // guarded by committer.mu
	turn        chan struct{} // capacity 1: its holder may move the head

	mu      sync.Mutex
	options store.LogOptions
	head    store.Position // the last position that Appended has seen
	// committed is the last position of this process's transactions. Their entries are about to be passed to Appended.
	committed store.Position
	appended  time.Time      // of the last of these transactions
	anchor    anchor         // found by the last look, or when the log was opened
	kept      store.Position // entries up to it may have been deleted
	oldest    store.Position // the first position within MaxAge when last determined
	fresh     time.Time      // oldest stays correct until then; zero if it must be determined
	tail      recent.Entries // the last entries up to head
	seen      time.Time
	ended     bool // its generation has ended

	following, again bool // see beginFollowing

	next  *headQuery // the query that has not begun
	asked time.Time
}

// OpenLog implements [store.Store].
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	if name == "" || len(name) > outbox.MaxName {
		return nil, fmt.Errorf("open log: the name has %[2]d bytes, must be 1 to %[1]d", outbox.MaxName, len(name))
	}
	if o.MaxBytes > 0 {
		return nil, fmt.Errorf("open log %s: MaxBytes is %d, but only logs in memory have it", name, o.MaxBytes)
	}
	var l *Log
	err := s.callWithRetry(ctx, func(ctx context.Context) (err error) {
		for l, err = s.openLog(ctx, name, o); err == errBetweenEpochs; { // new epochs began meanwhile
			l, err = s.openLog(ctx, name, o)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", name, classify(err))
	}
	return l, nil
}

// errBetweenEpochs is returned by openLog if the state that it has read belongs to an epoch that has ended.
var errBetweenEpochs = errors.New("the store began new epochs")

func (s *Store) openLog(ctx context.Context, name string, o store.LogOptions) (*Log, error) {
	as, _ := s.currentIncarnation()
	l := &Log{s: s, name: name, incarnation: as, options: o, turn: make(chan struct{}, 1)}
	asked := time.Now()
	var epoch, head, kept, proof int64
	err := s.pool.QueryRow(ctx, s.qualify(`INSERT INTO @.logs AS l (name, epoch, max_age, max_count) VALUES ($1, $2, $3, $4)
		ON CONFLICT (name) DO UPDATE SET max_age = excluded.max_age, max_count = excluded.max_count
		RETURNING id, epoch, head, kept, coalesce((SELECT @.proof(event_id, timestamp, data) FROM @.entries e WHERE e.log = l.id AND position = head),
			CASE WHEN kept = head THEN kept_proof END, 0)`), name, newEpoch(), max(int64(o.MaxAge), 0), max(int64(o.MaxCount), 0)).
		Scan(&l.id, &epoch, &head, &kept, &proof)
	if err != nil {
		return nil, err
	}
	l.epoch = epochIn(uint64(epoch), as)
	l.anchor = anchor{store.Position(head), uint32(proof)}
	l.head, l.kept, l.oldest, l.seen = store.Position(head), store.Position(kept), store.Position(kept)+1, asked
	s.mu.Lock()
	defer s.mu.Unlock()
	switch first := s.logs[name]; {
	case s.closed:
		return nil, store.ErrClosed
	case s.now != as:
		return nil, errBetweenEpochs
	case first != nil:
		first.mu.Lock()
		defer first.mu.Unlock()
		first.options, first.fresh, first.oldest = o, time.Time{}, first.kept+1
		return first, nil
	}
	s.logs[name] = l
	return l, nil
}

// newEpoch returns a random value for deriving the epochs of a new log.
func newEpoch() int64 { return int64(rand.Uint64()) }

// epochIn returns a log's epoch in an incarnation of the store (REP-19).
func epochIn(stored uint64, in incarnation) uint64 {
	b := binary.BigEndian.AppendUint64(nil, stored)
	b = binary.BigEndian.AppendUint64(b, uint64(in.generation))
	if in.salt != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(in.salt))
	}
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// end makes all later calls on the log return engine.ErrNewEpoch.
func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *Log) checkOpen(ctx context.Context) error {
	if err := l.s.checkOpen(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return engine.ErrNewEpoch
	}
	return nil
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.epoch }

// Seen implements [engine.Log].
func (l *Log) Seen() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Bounds implements [store.EventLog]. It queries the database only if the oldest entry has expired.
func (l *Log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	if err := l.checkOpen(ctx); err != nil {
		return 0, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		from, head, age := l.knownOldest(), l.head, l.options.MaxAge
		if age <= 0 || from > head || time.Now().Before(l.fresh) {
			return from, head, nil
		}
		l.mu.Unlock()
		first, fresh, err := l.findOldest(ctx, from, age)
		l.mu.Lock()
		switch {
		case err != nil:
			return 0, 0, err
		case l.options.MaxAge != age: // another OpenLog changed the options
		case first > 0:
			l.oldest, l.fresh = max(l.oldest, first), fresh
			return l.knownOldest(), l.head, nil
		default: // all entries have expired, except those appended meanwhile
			l.oldest = max(l.oldest, head+1)
		}
	}
}

// knownOldest returns the oldest position that can be determined without a query. The caller must hold l.mu.
func (l *Log) knownOldest() store.Position {
	oldest := max(l.oldest, l.kept+1)
	if n := store.Position(max(l.options.MaxCount, 0)); n > 0 && l.head > n {
		oldest = max(oldest, l.head-n+1)
	}
	return min(oldest, l.head+1)
}

// findOldest returns the position of the first entry at or after from that is not older than age, and the time at which
// the entry expires. It returns 0 if all entries are older.
func (l *Log) findOldest(ctx context.Context, from store.Position, age time.Duration) (first store.Position, fresh time.Time, err error) {
	asked := time.Now()
	var position int64
	var left float64
	ok, err := l.s.queryRow(ctx, `SELECT e.position, extract(epoch FROM e.appended + $3 * interval '1 microsecond' - now.t)::float8
		FROM (SELECT clock_timestamp() AS t) AS now, LATERAL (
			SELECT position, appended FROM @.entries WHERE log = $1 AND position >= $2
				AND appended >= now.t - $3 * interval '1 microsecond' ORDER BY position LIMIT 1) AS e`,
		[]any{l.id, int64(from), float64(age.Microseconds())}, &position, &left)
	if !ok {
		return 0, fresh, err
	}
	return store.Position(position), asked.Add(time.Duration(left * float64(time.Second))), nil
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
		if b.Entries = l.recentEntries(from, want); b.Entries != nil {
			return b, nil
		}
		cut := false
		if b.Entries, cut, err = l.readPage(ctx, from, want); err != nil {
			return store.Batch{}, err
		}
		if cut || store.Position(len(b.Entries)) == want-from {
			return b, nil
		}
		// There are fewer entries than expected. Either they were deleted since the bounds were read, or they are
		// missing.
		kept, err := l.followHead(ctx)
		if err != nil {
			return store.Batch{}, err
		}
		if kept <= from {
			return store.Batch{}, fmt.Errorf("%w: entry %d of %s is missing", ErrCorrupt, from+1+store.Position(len(b.Entries)), l.name)
		}
	}
}

// recentEntries returns the entries with positions in (after, to], or nil if they are not in memory.
func (l *Log) recentEntries(after, to store.Position) []store.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.tail.All()
	first := l.head - store.Position(len(tail)) + 1
	if after+1 < first {
		return nil
	}
	i, j := int(after+1-first), int(to+1-first)
	return tail[i:j:j]
}

// readPage reads the entries with positions in (after, to], using as many queries as necessary. It stops at the first
// missing entry, or if the entries are large.
func (l *Log) readPage(ctx context.Context, after, to store.Position) (entries []store.Entry, cut bool, err error) {
	for after < to && !cut {
		upTo := min(to, after+maxPage)
		var some []store.Entry
		if some, cut, err = l.queryEntries(ctx, after, upTo); err != nil {
			return nil, false, err
		}
		entries = append(entries, some...)
		if store.Position(len(some)) < upTo-after {
			break
		}
		after = upTo
	}
	return entries, cut, nil
}

// queryEntries reads consecutive entries with positions in (after, to]. The result cut reports whether it stopped
// because the entries are large. The database adds up their sizes before it reads them.
func (l *Log) queryEntries(ctx context.Context, after, to store.Position) (entries []store.Entry, cut bool, err error) {
	err = l.s.callWithRetry(ctx, func(ctx context.Context) error {
		entries = entries[:0]
		rows, err := l.s.pool.Query(ctx, l.s.qualify(`SELECT position, event_id, timestamp, data, meta, targets, cursor FROM (
			SELECT *, sum(octet_length(data) + coalesce(octet_length(meta), 0)) OVER (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM @.entries WHERE log = $1 AND position > $2 AND position <= $3) AS e
			WHERE before IS NULL OR before < $4 ORDER BY position`), l.id, int64(after), int64(to), int64(recent.Bytes))
		if err != nil {
			return err
		}
		defer rows.Close()
		size := 0
		for rows.Next() {
			e, err := l.scan(rows)
			if err != nil {
				return err
			}
			if e.Position != after+store.Position(len(entries))+1 {
				break
			}
			entries = append(entries, e)
			size += len(e.Data) + len(e.Meta)
		}
		cut = size >= recent.Bytes
		rows.Close()
		return rows.Err()
	})
	return entries, cut, classify(err)
}

func (l *Log) scan(row pgx.CollectableRow, more ...any) (e store.Entry, err error) {
	return l.s.scanEntry(row, func() string { return l.name }, more...)
}

// scanEntry decodes a row of an entry. Columns that precede those of the entry are scanned into more.
func (s *Store) scanEntry(row pgx.CollectableRow, log func() string, more ...any) (e store.Entry, err error) {
	var position int64
	var id, targets, cursor, data, meta []byte
	var timestamp string
	if err := row.Scan(append(more, &position, &id, &timestamp, &data, &meta, &targets, &cursor)...); err != nil {
		return e, err
	}
	e = store.Entry{Position: store.Position(position), EventID: string(id), Data: data, Meta: meta, Cursor: string(cursor)}
	e.Timestamp, err = events.ParseTime(timestamp)
	if err == nil && targets != nil {
		if err = json.Unmarshal(targets, &e.Targets); err == nil && e.Targets == nil {
			err = errors.New("its targets are null")
		}
	}
	if err != nil { // later entries must not wait for ever
		s.options.Logger.Error("mcp events: an entry cannot be read and is skipped", "log", log(), "position", position, "error", err)
		e.Targets, e.Timestamp = []string{}, events.NewTime(time.Unix(0, 0))
	}
	return e, nil
}

// spawn runs f in a goroutine of the store. It returns false if the store is closed.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}
