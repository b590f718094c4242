package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// lanes is how many transactions of appends a process makes at once. A log's are always in the same lane, and that
	// is the same in every process: those that append to other lanes' logs do not wait for each other.
	lanes = 2
	// togetherMax bounds how many logs share a transaction, and togetherBytes what they append in it.
	togetherMax   = 64
	togetherBytes = 1 << 20
	// togetherWait bounds how long the others of a transaction wait for one log that somebody has locked.
	togetherWait = 250 * time.Millisecond
)

// commits are the transactions of appends. A transaction costs more than a log's part in it, so that the appends of
// several logs share one. A log that is locked leaves the others' transactions until it was appended to again.
type commits struct {
	s *Store

	mu      sync.Mutex
	waiting []*commit
	running bool
}

// A commit is what one log appends, with its part in a transaction.
type commit struct {
	log  *Log
	in   *insert
	size int

	done  chan struct{}
	read  bool  // the transaction came as far as its answer
	alone bool  // it needs a transaction of its own
	err   error // set before done is closed
}

// do appends to a log.
func (q *commits) do(l *Log, in *insert, size int) error {
	if !l.apart.Load() && size <= togetherBytes {
		c := &commit{log: l, in: in, size: size, done: make(chan struct{})}
		if q.join(c) {
			q.next()
		}
		<-c.done
		if !c.alone {
			return c.err
		}
	}
	q.s.apart <- struct{}{}
	defer func() { <-q.s.apart }()
	err := q.transact(l.life, func(b *pgx.Batch) error {
		l.queueInsert(b, in, func() {})
		return l.usable(context.Background())
	})
	if err == nil {
		l.apart.Store(false)
	}
	return err
}

// join makes a commit wait for the next transaction, which the caller is to make where that is told.
func (q *commits) join(c *commit) (runs bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	runs = !q.running
	q.running = true
	return runs
}

// next makes a transaction of those that wait. Those that came meanwhile have a goroutine that goes on.
func (q *commits) next() {
	q.together(q.take())
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.waiting) > 0; q.running {
		q.s.wg.Go(q.run)
	}
}

// run makes transactions until nobody waits.
func (q *commits) run() {
	for group := q.take(); group != nil; group = q.take() {
		q.together(group)
	}
}

// take claims what waits, within the bounds of a transaction; nil ends who runs.
func (q *commits) take() (group []*commit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	for _, c := range q.waiting {
		if size += c.size; len(group) == togetherMax || len(group) > 0 && size > togetherBytes {
			break
		}
		group = append(group, c)
	}
	q.waiting = slices.Delete(q.waiting, 0, len(group))
	if len(group) == 0 {
		q.running = false
	}
	return group
}

// together commits a group in one transaction. Logs are locked in order of their ids, as every replica does it.
func (q *commits) together(group []*commit) {
	slices.SortFunc(group, func(a, b *commit) int { return cmp.Compare(a.log.id, b.log.id) })
	for len(group) > 0 {
		group = q.attempt(group)
	}
}

// attempt makes the transaction and returns those that are to have another one, where a log was locked.
func (q *commits) attempt(group []*commit) (again []*commit) {
	life := group[0].log.life
	var in []*commit // the transaction
	err := q.transact(life, func(b *pgx.Batch) error {
		b.Queue(`SELECT set_config('lock_timeout', $1, true)`, togetherWait.String())
		in = in[:0]
		for _, c := range group {
			c.read, c.alone, c.err = false, c.log.life != life, c.log.usable(context.Background())
			if !c.alone && c.err == nil {
				in = append(in, c)
				c.log.queueInsert(b, c.in, func() { c.read = true })
			}
		}
		return nil
	})
	var pg *pgconn.PgError
	if refused := errors.As(err, &pg) && !errors.Is(err, store.ErrUncertain); refused && pg.Code == stateLocked {
		if i := slices.IndexFunc(in, func(c *commit) bool { return !c.read }); i >= 0 {
			in[i].alone = true
			in[i].log.apart.Store(true)
			again = slices.Delete(slices.Clone(in), i, i+1)
		}
	} else if refused && len(in) > 1 {
		for _, c := range in { // only those fail that are at fault
			c.alone = true
		}
	}
	for _, c := range group {
		if slices.Contains(again, c) {
			continue
		}
		if !c.alone && c.err == nil {
			c.err = err
		}
		close(c.done)
	}
	return again
}

// transact makes a transaction that appends, anew where it met another one.
func (q *commits) transact(in life, queue func(b *pgx.Batch) error) error {
	return uncertain(q.s.attempt(context.Background(), func(ctx context.Context) error {
		b := &pgx.Batch{}
		_, timeline := q.s.life()
		q.s.begunIn(b, in, timeline)
		// Logs are looked at again in each attempt: the generation may be over.
		if err := queue(b); err != nil {
			return err
		}
		return q.s.pool.SendBatch(ctx, b).Close()
	}))
}
