package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxLogs is the maximum number of logs that share a transaction, and maxSharedBytes is the maximum total size of
	// their appends.
	maxLogs        = 64
	maxSharedBytes = 1 << 20
	// sharedLockTimeout is how long a shared transaction waits for a locked log.
	sharedLockTimeout = 250 * time.Millisecond
	// gatherDivisor determines how long the committer waits for further appends: the duration of the last commit
	// divided by gatherDivisor, but at most maxGather.
	gatherDivisor = 3
	maxGather     = 2 * time.Millisecond
)

// A committer commits the appends of a store, one transaction at a time. A transaction contains the appends to all logs
// that arrived during the previous one, because an additional transaction costs more than an additional log. A log that
// is locked or has rejected or large appends leaves the committer until an append to it succeeds.
type committer struct {
	s *Store

	mu       sync.Mutex
	logs     []*Log // with waiting appends, in the order of their turns
	waiting  int    // number of waiting appends to logs
	running  bool
	expected int           // number of appends for which gather waits; 0 for none
	gathered chan struct{} // capacity 1: the expected appends have arrived
	closed   bool
	wg       sync.WaitGroup // of the goroutines; added to under mu while not closed, or by one of them
}

func newCommitter(s *Store) *committer { return &committer{s: s, gathered: make(chan struct{}, 1)} }

// An appendQueue contains the waiting appends of a log.
type appendQueue struct {
	queue    []*appendCall
	listed   bool       // it is in committer.logs
	apart    bool       // it has left the committer
	returned []*logPart // transactions that were rolled back because of it
	alone    bool       // it has a separate goroutine
}

// A logPart contains the appends of one log within a transaction.
type logPart struct {
	log   *Log
	group []*appendCall
	size  int
	in    *insert
	once  bool           // some entries may exist already
	told  store.Position // the log's last known position before the transaction
	// The transaction has read the entries of other processes between told and its first entry. They are
	// incomplete if there are many.
	others []store.Entry
	read   bool  // the transaction reached the log's statement
	err    error // why it was left out of the transaction
}

// add queues an append for the next transaction.
func (c *committer) add(l *Log, a *appendCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return store.ErrClosed
	}
	l.queue = append(l.queue, a)
	switch {
	case l.alone: // its goroutine continues, or returns the log to the committer
		return nil
	case l.apart:
		c.removeLog(l)
		return nil
	}
	if c.waiting++; c.waiting == c.expected {
		select {
		case c.gathered <- struct{}{}:
		default: // an append was withdrawn meanwhile
		}
	}
	c.enlist(l)
	return nil
}

// enlist adds a log with waiting appends to the committer and starts run if necessary. The caller must hold mu.
func (c *committer) enlist(l *Log) {
	if !l.listed {
		l.listed = true
		c.logs = append(c.logs, l)
	}
	if !c.running {
		c.running = true
		c.wg.Go(c.run)
	}
}

// removeLog removes a log from the committer. Its appends are then committed in separate transactions. The caller must
// hold mu.
func (c *committer) removeLog(l *Log) {
	l.apart = true
	if l.listed {
		l.listed = false
		c.logs = slices.DeleteFunc(c.logs, func(other *Log) bool { return other == l })
		c.waiting -= len(l.queue)
	}
	if !l.alone {
		l.alone = true
		c.wg.Go(func() { c.runAlone(l) })
	}
}

// withdraw cancels an append. It returns false if the append is already in a transaction.
func (c *committer) withdraw(l *Log, a *appendCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.taken {
		return false
	}
	if i := slices.Index(l.queue, a); i >= 0 {
		l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
		if l.listed {
			c.waiting--
		}
	}
	return true
}

// close rejects further appends and waits for the pending ones.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
}

// run commits waiting appends until none are left. It commits a transaction while the entries of the previous one are
// being announced.
func (c *committer) run() {
	committed := make(chan []*logPart, 4)
	c.wg.Go(func() {
		for parts := range committed {
			for more := true; more; { // announce all waiting parts together
				select {
				case next, open := <-committed:
					parts, more = append(parts, next...), open
				default:
					more = false
				}
			}
			c.announce(parts)
		}
	})
	for parts := c.takeParts(); parts != nil; parts = c.takeParts() {
		began, count := time.Now(), 0
		for _, p := range parts {
			count += len(p.group)
		}
		// Every replica locks logs in the order of their ids.
		slices.SortFunc(parts, func(a, b *logPart) int { return cmp.Compare(a.log.id, b.log.id) })
		for separate := false; len(parts) > 0; separate = true {
			parts = c.commitTogether(parts, separate, committed)
		}
		c.gather(count, time.Since(began))
	}
	close(committed)
}

// takeParts removes waiting appends from their queues, up to the size of a transaction. If no appends are waiting, it
// returns nil, and run returns. A log with further appends moves to the end of c.logs.
func (c *committer) takeParts() (parts []*logPart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for size := 0; len(c.logs) > 0 && len(parts) < maxLogs; {
		l := c.logs[0]
		if len(l.queue) > 0 {
			if first := l.queue[0].row.size(); first > maxSharedBytes {
				c.removeLog(l)
				continue
			} else if size+first > maxSharedBytes {
				break
			}
		}
		c.logs, l.listed = c.logs[1:], false
		if p := l.takeGroup(maxSharedBytes - size); p != nil {
			parts, size, c.waiting = append(parts, p), size+p.size, c.waiting-len(p.group)
		}
	}
	for _, p := range parts {
		if len(p.log.queue) > 0 {
			c.enlist(p.log)
		}
	}
	c.running = len(parts) > 0
	return parts
}

// gather waits for further appends from the callers of the last transaction, so the next transaction includes them. A
// transaction with many entries costs little more than a transaction with a single entry. It waits for a fraction of
// the last commit's duration. If there is only one caller, it does not wait.
func (c *committer) gather(last int, took time.Duration) {
	c.mu.Lock()
	expected := last + c.waiting
	if expected < 2 || c.closed {
		c.mu.Unlock()
		return
	}
	c.expected = expected
	c.mu.Unlock()
	select {
	case <-c.gathered:
	case <-time.After(min(took/gatherDivisor, maxGather)):
	}
	c.mu.Lock()
	c.expected = 0
	c.mu.Unlock()
	select {
	case <-c.gathered: // they have just arrived
	default:
	}
}

// commitTogether commits the parts of several logs in one transaction, sends them to committed, and returns the parts
// that need another transaction. If the server rejects the transaction, the next one has a separate statement per log,
// to identify the faulty log.
func (c *committer) commitTogether(parts []*logPart, separate bool, committed chan<- []*logPart) (again []*logPart) {
	life := parts[0].log.incarnation
	err := c.transact(life, parts, sharedLockTimeout.String(), separate)
	var in []*logPart // the transaction
	for _, p := range parts {
		switch {
		case p.log.incarnation != life:
			again = append(again, p)
		case p.err != nil:
			answer(p.group, p.err)
		default:
			in = append(in, p)
		}
	}
	if err == nil {
		if in = slices.DeleteFunc(in, c.detectRestore); len(in) > 0 {
			committed <- in
		}
		return again
	}
	if !isRefused(err) {
		for _, p := range in {
			answer(p.group, err)
		}
		return again
	}
	if !separate && len(in) > 1 {
		return slices.Concat(in, again)
	}
	faulty := in
	if i := slices.IndexFunc(in, func(p *logPart) bool { return !p.read }); i >= 0 {
		faulty = in[i : i+1]
		again = slices.Concat(in[:i], in[i+1:], again)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range faulty {
		p.log.returned = append(p.log.returned, p)
		c.removeLog(p.log)
	}
	return again
}

// runAlone commits the waiting appends of a log that has left the committer, until the log can return to it.
func (c *committer) runAlone(l *Log) {
	for p := c.takeAlone(l); p != nil; p = c.takeAlone(l) {
		c.s.apart <- struct{}{}
		err := c.commitAlone(p)
		if err != nil && len(p.group) > 1 && isRefused(err) { // only the appends at fault fail
			for _, a := range p.group {
				one := &logPart{log: l, group: []*appendCall{a}}
				if err := c.commitAlone(one); err != nil {
					answer(one.group, err)
				}
			}
		} else if err != nil {
			answer(p.group, err)
		}
		<-c.s.apart
	}
}

// takeAlone removes waiting appends of a log from its queue. If no appends are waiting, it returns nil, and runAlone
// returns.
func (c *committer) takeAlone(l *Log) (p *logPart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.returned) > 0 {
		p, l.returned = l.returned[0], l.returned[1:]
		return p
	}
	if l.apart {
		if p = l.takeGroup(maxGroupBytes); p != nil {
			return p
		}
	}
	if l.alone = false; len(l.queue) > 0 {
		c.waiting += len(l.queue)
		c.enlist(l)
	}
	return nil
}

// commitAlone commits the part of a single log in a separate transaction and announces it.
func (c *committer) commitAlone(p *logPart) error {
	err := c.transact(p.log.incarnation, []*logPart{p}, "", true)
	if isMissingLog(err) { // readHeads detects a restored database and begins new epochs
		ctx, cancel := c.s.withTimeout(c.s.ctx)
		defer cancel()
		if _, looked := c.s.readHeads(ctx, p.log); looked != nil {
			err = looked
		}
	}
	if err != nil {
		return err
	}
	if p.err != nil {
		return p.err
	}
	c.mu.Lock()
	p.log.apart = false
	c.mu.Unlock()
	if !c.detectRestore(p) {
		c.wg.Go(func() { c.announce([]*logPart{p}) })
	}
	return nil
}

// isRefused reports whether the server rejected the appends of a log in the transaction, or could not lock the log in
// time.
func isRefused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !errors.Is(err, store.ErrUncertain) && !errors.Is(err, engine.ErrNewEpoch)
}

// transact appends the parts of logs that belong to an incarnation. For a part that it omits, it sets err. It retries
// after a conflict. If separate is set, it queues one statement per part.
func (c *committer) transact(of incarnation, parts []*logPart, lockWait string, separate bool) error {
	return wrapUncertain(c.s.callWithRetry(context.Background(), func(ctx context.Context) error {
		b := &pgx.Batch{}
		_, timeline := c.s.currentIncarnation()
		c.s.queueBeginIn(b, of, timeline, lockWait)
		var in []*logPart
		for _, p := range parts {
			if p.log.incarnation != of {
				continue
			}
			// Every attempt checks the logs, because the generation may have ended.
			if p.err = p.log.checkOpen(context.Background()); p.err == nil {
				p.prepare()
				in = append(in, p)
			}
		}
		if len(in) == 0 {
			return nil
		}
		if separate || len(in) == 1 && in[0].once {
			for _, p := range in {
				p.log.queueInsert(b, p.in, func() { p.read = true })
			}
		} else {
			c.queueAll(b, in)
		}
		return c.s.pool.SendBatch(ctx, b).Close()
	}))
}

// prepare sets up the part's statement arguments for a transaction.
func (p *logPart) prepare() {
	p.in, p.read, p.once, p.others = newInsert(len(p.group)), false, false, nil
	for _, a := range p.group {
		p.in.add(&a.row, a.once, a.above)
		p.once = p.once || a.once
	}
	p.log.mu.Lock()
	p.told = max(p.log.head, p.log.committed)
	p.log.mu.Unlock()
}

// queueAll queues the appends of several logs. One statement locks all logs, reads the entries of other processes and
// appends new entries. Each log with entries that may already exist has an additional statement.
func (c *committer) queueAll(b *pgx.Batch, parts []*logPart) {
	var logs, told, counts, of, before []int64
	all, byID := newInsert(0), map[int64]*logPart{}
	for _, p := range parts {
		count := 0
		if !p.once {
			count = len(p.group)
			all.addAll(p.in)
		}
		byID[p.log.id] = p
		logs, told, counts = append(logs, p.log.id), append(told, int64(p.told)), append(counts, int64(count))
		for i := range count {
			of, before = append(of, p.log.id), append(before, int64(i))
		}
	}
	b.Queue(c.s.qualify(`SELECT of_log, head, position, event_id, timestamp, data, meta, targets, cursor
		FROM @.append_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`), logs, told, maxSharedBytes, counts, of, before,
		all.ids, all.audiences, all.hashes, all.timestamps, all.data, all.meta, all.targets, all.cursors).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var id int64
				var head *int64
				if err := rows.Scan(&id, &head, nil, nil, nil, nil, nil, nil, nil); err != nil {
					return err
				}
				p := byID[id]
				if head == nil {
					e, err := p.log.scan(rows, nil, nil)
					if err != nil {
						return err
					}
					p.others = append(p.others, e)
					continue
				}
				more := max(0, min(*head-int64(p.told), maxPage))
				p.others = make([]store.Entry, 0, int(more)+len(p.group)) // add appends those of the group
				// queueInsert replaces these results if the entries may exist already.
				for i := range p.in.results {
					p.in.results[i] = result{position: store.Position(*head) + store.Position(i) + 1, fresh: true}
				}
			}
			return rows.Err()
		})
	for _, p := range parts {
		if p.once {
			p.log.queueInsert(b, p.in, func() { p.read = true })
		}
	}
}

// detectRestore reports whether the database was restored to an older state of the log. If so, it begins new epochs and
// completes the appends of the part with an error. It also copies the results of the committed part to its appends.
func (c *committer) detectRestore(p *logPart) bool {
	for i, a := range p.group {
		if a.result = p.in.results[i]; a.result.fresh && a.result.position <= p.told {
			ctx, cancel := c.s.withTimeout(c.s.ctx)
			defer cancel()
			err := c.s.beginAfterRestore(ctx, p.log.incarnation, p.log.name, a.result.position, p.told)
			answer(p.group, fmt.Errorf("%w: %w", store.ErrUncertain, err)) // the entry exists, in the new epoch
			return true
		}
	}
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	p.log.committed, p.log.appended = max(p.log.committed, p.in.highestPosition()), time.Now()
	return false
}
