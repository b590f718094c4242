package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxGroup is the maximum number of appends to a log in one transaction, and maxGroupBytes is their maximum total
	// size. A larger append is committed in a separate transaction.
	maxGroup      = 512
	maxGroupBytes = 4 << 20
)

// Append implements [store.EventLog]. Concurrent appends are committed together. If ctx is done during the commit, or
// the response is lost, the error matches [store.ErrUncertain].
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	a := appendCall{entry: e}
	err := l.append(ctx, &a)
	if err != nil {
		return 0, err
	}
	return a.result.position, nil
}

// AppendOnce implements [store.EventLog]. It looks up the id within the appending transaction, after locking the log's
// row.
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	a := appendCall{entry: e, once: true, above: above}
	if err := l.append(ctx, &a); err != nil {
		return 0, false, err
	}
	if a.result.fresh {
		return a.result.position, true, nil
	}
	return a.result.position, false, store.Repeats(a.result.position, a.result.stands, e.Data)
}

// An appendCall is a call to Append or AppendOnce.
type appendCall struct {
	entry store.Entry
	once  bool
	above store.Position
	row   entryRow

	taken bool // guarded by committer.mu
	done  chan struct{}
	// Set before done is closed.
	result result
	err    error
}

// A result is the outcome of one append.
type result struct {
	position store.Position
	fresh    bool
	stands   json.RawMessage // data of the existing entry
}

// An entryRow is the encoding of an entry in the database.
type entryRow struct {
	id, audience, data, meta, targets, cursor []byte
	hash                                      int64
	timestamp                                 string
}

func newRow(e *store.Entry) (r entryRow, err error) {
	r = entryRow{id: []byte(e.EventID), audience: audienceHash(e.Targets), data: e.Data, cursor: []byte(e.Cursor), timestamp: e.Timestamp.String()}
	if r.data == nil {
		r.data = []byte{}
	}
	if len(e.Meta) > 0 {
		r.meta = e.Meta
	}
	if e.Targets != nil {
		if r.targets, err = json.Marshal(e.Targets); err != nil {
			return entryRow{}, err
		}
	}
	r.hash = idHash(r.id, r.audience)
	return r, nil
}

func (r *entryRow) size() int {
	return len(r.id) + len(r.audience) + len(r.data) + len(r.meta) + len(r.targets) + len(r.cursor) + len(r.timestamp)
}

// audienceHash returns a hash of the set of targets, which can be large. It is empty if targets is nil.
func audienceHash(targets []string) []byte {
	if targets == nil {
		return []byte{}
	}
	sum := sha256.Sum256([]byte(store.Audience(targets)))
	return sum[:]
}

// idHash returns the index key of an id for an audience.
func idHash(id, audience []byte) int64 {
	h := sha256.New()
	h.Write(audience) // 0 or 32 bytes: different pairs have different input
	h.Write([]byte{byte(len(audience))})
	h.Write(id)
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

func (l *Log) append(ctx context.Context, a *appendCall) (err error) {
	if err := l.checkOpen(ctx); err != nil {
		return err
	}
	if a.row, err = newRow(&a.entry); err != nil {
		return err
	}
	a.done = make(chan struct{})
	if err := l.s.committer.add(l, a); err != nil {
		return err
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	if l.s.committer.withdraw(l, a) {
		return ctx.Err()
	}
	select {
	case <-a.done:
		return a.err
	default:
		return fmt.Errorf("%w: %w", store.ErrUncertain, ctx.Err())
	}
}

// takeGroup removes waiting appends of a log from its queue, up to the size of a group. It returns nil if no appends
// are waiting. An AppendOnce with an id that is already in the group is left for the next group, which can find the
// entry. The caller must hold committer.mu.
func (l *Log) takeGroup(bytes int) *logPart {
	p := &logPart{log: l}
	hashes := make(map[int64]bool, min(len(l.queue), maxGroup))
	for _, a := range l.queue {
		size := a.row.size()
		if n := len(p.group); n == maxGroup || n > 0 && (p.size+size > bytes || a.once && hashes[a.row.hash]) {
			break
		}
		hashes[a.row.hash], a.taken = true, true
		p.group, p.size = append(p.group, a), p.size+size
	}
	if len(p.group) == 0 {
		return nil
	}
	l.queue = l.queue[len(p.group):]
	return p
}

func answer(group []*appendCall, err error) {
	for _, a := range group {
		a.err = err
		close(a.done)
	}
}

// announce delivers committed entries to Appended. Because the entries are committed, it retries until it succeeds or
// the store is closed. Close waits for announce.
func (l *Log) announce(own []store.Entry, to store.Position) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := l.s.withTimeout(l.s.ctx)
		err := l.advance(ctx, to, own)
		cancel()
		if errors.Is(err, engine.ErrNewEpoch) {
			return fmt.Errorf("%w: %w", store.ErrUncertain, err) // it was committed, perhaps in the new epoch
		}
		if err == nil || errors.Is(err, ErrCorrupt) {
			return err
		}
		if closed := l.s.checkOpen(context.Background()); closed != nil {
			return fmt.Errorf("%w: %w", store.ErrUncertain, closed)
		}
		time.Sleep(wait)
	}
}

// An insert contains the arguments of the statement that appends entries, with one array per column.
type insert struct {
	ids, audiences, data, meta, targets, cursors [][]byte
	hashes, above                                []int64
	timestamps                                   []string
	once                                         []bool
	results                                      []result
}

func newInsert(n int) *insert { return &insert{results: make([]result, n)} }

func (in *insert) add(r *entryRow, once bool, above store.Position) {
	in.ids, in.audiences, in.hashes = append(in.ids, r.id), append(in.audiences, r.audience), append(in.hashes, r.hash)
	in.data, in.meta, in.targets = append(in.data, r.data), append(in.meta, r.meta), append(in.targets, r.targets)
	in.cursors, in.timestamps = append(in.cursors, r.cursor), append(in.timestamps, r.timestamp)
	in.once, in.above = append(in.once, once), append(in.above, int64(min(above, 1<<63-1)))
}

// addAll adds the entries of another insert. The log must not contain these entries.
func (in *insert) addAll(other *insert) {
	in.ids, in.audiences, in.hashes = append(in.ids, other.ids...), append(in.audiences, other.audiences...), append(in.hashes, other.hashes...)
	in.data, in.meta, in.targets = append(in.data, other.data...), append(in.meta, other.meta...), append(in.targets, other.targets...)
	in.cursors, in.timestamps = append(in.cursors, other.cursors...), append(in.timestamps, other.timestamps...)
}

// highestPosition returns the highest position of the results.
func (in *insert) highestPosition() (p store.Position) {
	for _, r := range in.results {
		p = max(p, r.position)
	}
	return p
}

// queueInsert queues the statement that appends the entries of an insert. When the results have been read, in.results
// is set and read is called.
func (l *Log) queueInsert(b *pgx.Batch, in *insert, read func()) {
	b.Queue(l.s.qualify(`SELECT n, at, stands FROM @.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`), l.id,
		in.ids, in.audiences, in.hashes, in.timestamps, in.data, in.meta, in.targets, in.cursors, in.once, in.above).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var n, position int64
				var stands []byte
				if err := rows.Scan(&n, &position, &stands); err != nil {
					return err
				}
				in.results[n-1] = result{store.Position(position), stands == nil, stands}
			}
			if rows.Err() == nil {
				read()
			}
			return rows.Err()
		})
}
