package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// groupMax bounds how many appends one transaction takes, groupBytes their size together, but for
	// one that is larger by itself.
	groupMax   = 512
	groupBytes = 4 << 20
	// gatherPart of what a commit took is waited for more to commit, maxGather at most.
	gatherPart = 3
	maxGather  = 2 * time.Millisecond
)

// Append implements [store.EventLog]. Appends that wait together are committed together. When ctx
// ends while the commit is under way, or its answer is lost, the error matches
// [store.ErrUncertain].
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	a := appending{entry: e}
	err := l.append(ctx, &a)
	if err != nil {
		return 0, err
	}
	return a.result.position, nil
}

// AppendOnce implements [store.EventLog]. It looks for the id in the transaction that appends, once
// the log's row is locked.
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	a := appending{entry: e, once: true, above: above}
	if err := l.append(ctx, &a); err != nil {
		return 0, false, err
	}
	if a.result.fresh {
		return a.result.position, true, nil
	}
	return a.result.position, false, store.Repeats(a.result.position, a.result.stands, e.Data)
}

// An appending is one call of Append or AppendOnce.
type appending struct {
	entry store.Entry
	once  bool
	above store.Position
	row   row

	taken bool // guarded by appends.mu
	done  chan struct{}
	// Set before done is closed.
	result result
	err    error
}

// A result is what became of one entry.
type result struct {
	position store.Position
	fresh    bool
	stands   json.RawMessage // data of the entry that stands already
}

// A row is an entry as the database takes it.
type row struct {
	id, audience, data, meta, targets, cursor []byte
	hash                                      int64
	timestamp                                 string
}

func newRow(e *store.Entry) (r row, err error) {
	r = row{id: []byte(e.EventID), audience: audience(e.Targets), data: e.Data, cursor: []byte(e.Cursor), timestamp: e.Timestamp.String()}
	if r.data == nil {
		r.data = []byte{}
	}
	if len(e.Meta) > 0 {
		r.meta = e.Meta
	}
	if e.Targets != nil {
		if r.targets, err = json.Marshal(e.Targets); err != nil {
			return row{}, err
		}
	}
	r.hash = idHash(r.id, r.audience)
	return r, nil
}

func (r *row) size() int {
	return len(r.id) + len(r.audience) + len(r.data) + len(r.meta) + len(r.targets) + len(r.cursor) + len(r.timestamp)
}

// audience is empty for everybody, else a hash of the set, which may be large.
func audience(targets []string) []byte {
	if targets == nil {
		return []byte{}
	}
	sum := sha256.Sum256([]byte(store.Audience(targets)))
	return sum[:]
}

// idHash is what the index has of an id for an audience.
func idHash(id, audience []byte) int64 {
	h := sha256.New()
	h.Write(audience) // 0 or 32 bytes: no two pairs read alike but by chance
	h.Write([]byte{byte(len(audience))})
	h.Write(id)
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// appends are those of a log that wait, and the goroutine that commits them while there are any.
type appends struct {
	log *Log

	mu       sync.Mutex
	queue    []*appending
	running  bool
	expected int           // how many are waited for; 0 for none
	gathered chan struct{} // capacity 1: they are there
	closed   bool
	wg       sync.WaitGroup // of the goroutines; added to under mu while not closed
}

func (l *Log) append(ctx context.Context, a *appending) (err error) {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if a.row, err = newRow(&a.entry); err != nil {
		return err
	}
	a.done = make(chan struct{})
	q := &l.appends
	if err := q.add(a); err != nil {
		return err
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	if q.withdraw(a) {
		return ctx.Err()
	}
	select {
	case <-a.done:
		return a.err
	default:
		return fmt.Errorf("%w: %w", store.ErrUncertain, ctx.Err())
	}
}

// add makes an append wait for the next group.
func (q *appends) add(a *appending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return store.ErrClosed
	}
	q.queue = append(q.queue, a)
	if len(q.queue) == q.expected {
		select {
		case q.gathered <- struct{}{}:
		default: // somebody has withdrawn since
		}
	}
	if !q.running {
		q.running = true
		q.wg.Go(q.run)
	}
	return nil
}

// withdraw takes back an append whose transaction has not begun.
func (q *appends) withdraw(a *appending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.taken {
		return false
	}
	for i, x := range q.queue {
		if x == a {
			q.queue = append(q.queue[:i:i], q.queue[i+1:]...)
			break
		}
	}
	return true
}

// close takes no more appends and returns when those that wait are done.
func (q *appends) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wg.Wait()
}

// run commits what waits until nothing does. While others are told of one group the next is committed.
func (q *appends) run() {
	committed := make(chan []*appending, 4)
	q.wg.Go(func() {
		for group := range committed {
			for more := true; more; { // what others appended in between is read for all that wait at once
				select {
				case next, open := <-committed:
					group, more = append(group, next...), open
				default:
					more = false
				}
			}
			q.log.announceAll(group)
		}
	})
	for group := q.take(); group != nil; group = q.take() {
		began := time.Now()
		q.log.commit(group, committed)
		q.gather(len(group), time.Since(began))
	}
	close(committed)
}

// gather waits for those whose appends were committed to come back, so that the next group has them too: a
// transaction costs much the same for one entry as for many. It waits for a part of what the last one took
// and not at all for who is alone.
func (q *appends) gather(last int, took time.Duration) {
	q.mu.Lock()
	expected := last + len(q.queue)
	if expected < 2 || q.closed {
		q.mu.Unlock()
		return
	}
	q.expected = expected
	q.mu.Unlock()
	select {
	case <-q.gathered:
	case <-time.After(min(took/gatherPart, maxGather)):
	}
	q.mu.Lock()
	q.expected = 0
	q.mu.Unlock()
	select {
	case <-q.gathered: // it came just now
	default:
	}
}

// take claims what waits, within the bounds of a group; nil ends the goroutine. An AppendOnce whose id
// is in the group already waits for the next one, which sees it.
func (q *appends) take() (group []*appending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.running = false
		return nil
	}
	hashes, size := make(map[int64]bool, len(q.queue)), 0
	for _, a := range q.queue {
		size += a.row.size()
		if len(group) == groupMax || len(group) > 0 && (size > groupBytes || a.once && hashes[a.row.hash]) {
			break
		}
		hashes[a.row.hash], a.taken = true, true
		group = append(group, a)
	}
	q.queue = q.queue[len(group):]
	return group
}

// commit appends a group and passes it on, or answers it when it fails.
func (l *Log) commit(group []*appending, committed chan<- []*appending) {
	err := l.insert(group)
	if err == nil {
		committed <- group
		return
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && len(group) > 1 && !errors.Is(err, store.ErrUncertain) && !errors.Is(err, engine.ErrNewEpoch) {
		// The server refused it: only those fail that are at fault.
		for i := range group {
			l.commit(group[i:i+1:i+1], committed)
		}
		return
	}
	answer(group, err)
}

func answer(group []*appending, err error) {
	for _, a := range group {
		a.err = err
		close(a.done)
	}
}

// insert appends a group in one transaction, which other logs may share.
func (l *Log) insert(group []*appending) error {
	in, size := newInsert(len(group)), 0
	for _, a := range group {
		in.add(&a.row, a.once, a.above)
		size += a.row.size()
	}
	l.mu.Lock()
	told := l.head
	l.mu.Unlock()
	if err := l.s.lanes[l.id%lanes].do(l, in, size); err != nil {
		return err
	}
	for i, a := range group {
		if a.result = in.results[i]; a.result.fresh && a.result.position <= told {
			ctx, cancel := l.s.limited(l.s.ctx)
			defer cancel()
			err := l.s.rewound(ctx, l.life, l.name, a.result.position, told)
			return fmt.Errorf("%w: %w", store.ErrUncertain, err) // it stands, in the new epoch
		}
	}
	return nil
}

// announceAll tells of what was committed, one group or several in their order, and answers them.
func (l *Log) announceAll(group []*appending) {
	var own []store.Entry // the last that follow each other; those before are read with what is in between
	var to store.Position
	for _, a := range group {
		if to = max(to, a.result.position); a.result.fresh {
			a.entry.Position = a.result.position
			if len(own) > 0 && own[len(own)-1].Position+1 != a.entry.Position {
				own = nil
			}
			own = append(own, a.entry)
		}
	}
	answer(group, l.announce(own, to))
}

// announce tells Appended and other replicas of what was committed. It goes on until that is done: the
// entries stand.
func (l *Log) announce(own []store.Entry, to store.Position) error {
	if len(own) > 0 {
		l.s.tail.mark(l.id)
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := l.s.limited(l.s.ctx)
		err := l.advance(ctx, to, own)
		cancel()
		if errors.Is(err, engine.ErrNewEpoch) {
			return fmt.Errorf("%w: %w", store.ErrUncertain, err) // it was committed, and may be of the new epoch
		}
		if err == nil || errors.Is(err, ErrCorrupt) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-l.s.ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUncertain, store.ErrClosed)
		}
	}
}

// An insert is the arguments of the statement that appends entries, one array a column.
type insert struct {
	ids, audiences, data, meta, targets, cursors [][]byte
	hashes, above                                []int64
	timestamps                                   []string
	once                                         []bool
	results                                      []result
}

func newInsert(n int) *insert { return &insert{results: make([]result, n)} }

func (in *insert) add(r *row, once bool, above store.Position) {
	in.ids, in.audiences, in.hashes = append(in.ids, r.id), append(in.audiences, r.audience), append(in.hashes, r.hash)
	in.data, in.meta, in.targets = append(in.data, r.data), append(in.meta, r.meta), append(in.targets, r.targets)
	in.cursors, in.timestamps = append(in.cursors, r.cursor), append(in.timestamps, r.timestamp)
	in.once, in.above = append(in.once, once), append(in.above, int64(min(above, 1<<63-1)))
}

// highest is the highest position that the entries have.
func (in *insert) highest() (p store.Position) {
	for _, r := range in.results {
		p = max(p, r.position)
	}
	return p
}

// queueInsert queues the append; in's results are set when they are read, which is told.
func (l *Log) queueInsert(b *pgx.Batch, in *insert, read func()) {
	b.Queue(l.s.in(`SELECT n, at, stands FROM @.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`), l.id,
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
