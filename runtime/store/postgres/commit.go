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
	// lanes is the number of transactions that append concurrently in a process. Each log belongs to one lane, the
	// same in every process, so that processes that append to different lanes do not wait for each other.
	lanes = 2
	// togetherMax bounds the number of logs that share a transaction, and togetherBytes the total size of their
	// appends.
	togetherMax   = 64
	togetherBytes = 1 << 20
	// togetherWait bounds how long the other logs of a transaction wait for a locked log.
	togetherWait = 250 * time.Millisecond
	// gatherPart divides the duration of a commit: the lane waits that long for further appends, at most maxGather.
	gatherPart = 3
	maxGather  = 2 * time.Millisecond
)

// A lane commits the appends to its logs, one transaction at a time. A transaction takes the appends that arrived
// during the previous one, of all logs, because a transaction costs more than the part of a log in it. A log that is
// locked, or whose appends are refused or large, leaves the lane until an append to it has succeeded.
type lane struct {
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

func newLane(s *Store) *lane { return &lane{s: s, gathered: make(chan struct{}, 1)} }

// appends holds the waiting appends of a log.
type appends struct {
	queue    []*appending
	listed   bool    // it is in lane.logs
	apart    bool    // it has left the lane
	returned []*part // transactions that were rolled back because of it
	alone    bool    // it has a separate goroutine
}

// A part is the share of one log in a transaction.
type part struct {
	log   *Log
	group []*appending
	size  int
	in    *insert
	once  bool           // some entries may exist already
	told  store.Position // the log's head before the transaction
	read  bool           // the transaction reached the log's statement
	err   error          // why it was left out of the transaction
}

// add queues an append for the next transaction.
func (n *lane) add(l *Log, a *appending) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return store.ErrClosed
	}
	l.queue = append(l.queue, a)
	switch {
	case l.alone: // its goroutine continues, or returns the log to the lane
		return nil
	case l.apart:
		n.leave(l)
		return nil
	}
	if n.waiting++; n.waiting == n.expected {
		select {
		case n.gathered <- struct{}{}:
		default: // an append was withdrawn meanwhile
		}
	}
	n.enlist(l)
	return nil
}

// enlist gives a log with waiting appends a turn. The caller holds mu.
func (n *lane) enlist(l *Log) {
	if !l.listed {
		l.listed = true
		n.logs = append(n.logs, l)
	}
	if !n.running {
		n.running = true
		n.wg.Go(n.run)
	}
}

// leave gives a log separate transactions. The caller holds mu.
func (n *lane) leave(l *Log) {
	l.apart = true
	if l.listed {
		l.listed = false
		n.logs = slices.DeleteFunc(n.logs, func(other *Log) bool { return other == l })
		n.waiting -= len(l.queue)
	}
	if !l.alone {
		l.alone = true
		n.wg.Go(func() { n.runAlone(l) })
	}
}

// withdraw cancels an append that is not yet in a transaction. It returns false if it is.
func (n *lane) withdraw(l *Log, a *appending) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.taken {
		return false
	}
	if i := slices.Index(l.queue, a); i >= 0 {
		l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
		if l.listed {
			n.waiting--
		}
	}
	return true
}

// close refuses further appends and returns when the waiting ones are done.
func (n *lane) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.wg.Wait()
}

// run commits waiting appends until none are left. It commits the next transaction while the entries of the previous
// one are announced.
func (n *lane) run() {
	committed := make(chan []*part, 4)
	n.wg.Go(func() {
		for parts := range committed {
			for more := true; more; { // announce everything that waits with one read of other processes' entries
				select {
				case next, open := <-committed:
					parts, more = append(parts, next...), open
				default:
					more = false
				}
			}
			n.announce(parts)
		}
	})
	for parts := n.take(); parts != nil; parts = n.take() {
		began, count := time.Now(), 0
		for _, p := range parts {
			count += len(p.group)
		}
		// Every replica locks logs in order of their ids.
		slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.log.id, b.log.id) })
		for each := false; len(parts) > 0; each = true {
			parts = n.together(parts, each, committed)
		}
		n.gather(count, time.Since(began))
	}
	close(committed)
}

// take takes waiting appends, up to the bounds of a transaction; nil ends run. A log with more of them has its next
// turn after the others.
func (n *lane) take() (parts []*part) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for size := 0; len(n.logs) > 0 && len(parts) < togetherMax; {
		l := n.logs[0]
		if len(l.queue) > 0 {
			if first := l.queue[0].row.size(); first > togetherBytes {
				n.leave(l)
				continue
			} else if size+first > togetherBytes {
				break
			}
		}
		n.logs, l.listed = n.logs[1:], false
		if p := l.take(togetherBytes - size); p != nil {
			parts, size, n.waiting = append(parts, p), size+p.size, n.waiting-len(p.group)
		}
	}
	for _, p := range parts {
		if len(p.log.queue) > 0 {
			n.enlist(p.log)
		}
	}
	n.running = len(parts) > 0
	return parts
}

// gather waits until callers whose appends were committed have come back with further ones, so that the next
// transaction includes them. A transaction costs much the same for one entry as for many. It waits for a fraction of
// the last commit's duration, and not at all for a single caller.
func (n *lane) gather(last int, took time.Duration) {
	n.mu.Lock()
	expected := last + n.waiting
	if expected < 2 || n.closed {
		n.mu.Unlock()
		return
	}
	n.expected = expected
	n.mu.Unlock()
	select {
	case <-n.gathered:
	case <-time.After(min(took/gatherPart, maxGather)):
	}
	n.mu.Lock()
	n.expected = 0
	n.mu.Unlock()
	select {
	case <-n.gathered: // they have just arrived
	default:
	}
}

// together commits parts of several logs in one transaction, passes them on, and returns the parts that need another
// transaction. If the server refuses the transaction, the next one has a statement per log, which shows the log at
// fault.
func (n *lane) together(parts []*part, each bool, committed chan<- []*part) (again []*part) {
	life := parts[0].log.life
	err := n.transact(life, parts, togetherWait, each)
	var in []*part // the transaction
	for _, p := range parts {
		switch {
		case p.log.life != life:
			again = append(again, p)
		case p.err != nil:
			answer(p.group, p.err)
		default:
			in = append(in, p)
		}
	}
	if err == nil {
		if in = slices.DeleteFunc(in, n.rewound); len(in) > 0 {
			committed <- in
		}
		return again
	}
	if !refused(err) {
		for _, p := range in {
			answer(p.group, err)
		}
		return again
	}
	if !each && len(in) > 1 {
		return slices.Concat(in, again)
	}
	faulty := in
	if i := slices.IndexFunc(in, func(p *part) bool { return !p.read }); i >= 0 {
		faulty = in[i : i+1]
		again = slices.Concat(in[:i], in[i+1:], again)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range faulty {
		p.log.returned = append(p.log.returned, p)
		n.leave(p.log)
	}
	return again
}

// runAlone commits the waiting appends of a log that has left the lane, until it can return.
func (n *lane) runAlone(l *Log) {
	for p := n.takeAlone(l); p != nil; p = n.takeAlone(l) {
		n.s.apart <- struct{}{}
		err := n.single(p)
		if err != nil && len(p.group) > 1 && refused(err) { // only the appends at fault fail
			for _, a := range p.group {
				one := &part{log: l, group: []*appending{a}}
				if err := n.single(one); err != nil {
					answer(one.group, err)
				}
			}
		} else if err != nil {
			answer(p.group, err)
		}
		<-n.s.apart
	}
}

// takeAlone takes waiting appends of a log; nil ends runAlone.
func (n *lane) takeAlone(l *Log) (p *part) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(l.returned) > 0 {
		p, l.returned = l.returned[0], l.returned[1:]
		return p
	}
	if l.apart {
		if p = l.take(groupBytes); p != nil {
			return p
		}
	}
	if l.alone = false; len(l.queue) > 0 {
		n.waiting += len(l.queue)
		n.enlist(l)
	}
	return nil
}

// single commits the part of one log in a transaction without others, and passes it on.
func (n *lane) single(p *part) error {
	err := n.transact(p.log.life, []*part{p}, 0, true)
	if gone(err) { // heads detects a restored database and begins new epochs
		ctx, cancel := n.s.limited(n.s.ctx)
		defer cancel()
		if _, looked := n.s.heads(ctx, p.log); looked != nil {
			err = looked
		}
	}
	if err != nil {
		return err
	}
	if p.err != nil {
		return p.err
	}
	n.mu.Lock()
	p.log.apart = false
	n.mu.Unlock()
	if !n.rewound(p) {
		n.wg.Go(func() { n.announce([]*part{p}) })
	}
	return nil
}

// refused reports whether the server refused the appends of one of a transaction's logs, or could not lock the log in
// time.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !errors.Is(err, store.ErrUncertain) && !errors.Is(err, engine.ErrNewEpoch)
}

// transact appends the parts of logs that are in a life, and sets err in the parts that it leaves out. It retries after a
// conflict. If each is set, the parts do not share statements.
func (n *lane) transact(of life, parts []*part, lockWait time.Duration, each bool) error {
	return uncertain(n.s.attempt(context.Background(), func(ctx context.Context) error {
		b := &pgx.Batch{}
		_, timeline := n.s.life()
		n.s.begunIn(b, of, timeline)
		if lockWait > 0 {
			b.Queue(`SELECT set_config('lock_timeout', $1, true)`, lockWait.String())
		}
		var in []*part
		for _, p := range parts {
			if p.log.life != of {
				continue
			}
			// Every attempt checks the logs, because the generation may have ended.
			if p.err = p.log.usable(context.Background()); p.err == nil {
				p.prepare()
				in = append(in, p)
			}
		}
		if len(in) == 0 {
			return nil
		}
		if each || len(in) == 1 {
			for _, p := range in {
				p.log.queueInsert(b, p.in, func() { p.read = true })
			}
		} else {
			n.queueAll(b, in)
		}
		return n.s.pool.SendBatch(ctx, b).Close()
	}))
}

// prepare prepares a part for a transaction.
func (p *part) prepare() {
	p.in, p.read, p.once = newInsert(len(p.group)), false, false
	for _, a := range p.group {
		p.in.add(&a.row, a.once, a.above)
		p.once = p.once || a.once
	}
	p.log.mu.Lock()
	p.told = p.log.head
	p.log.mu.Unlock()
}

// queueAll queues the appends of several logs: one statement that locks all of them, and one for each log with
// entries that may exist already.
func (n *lane) queueAll(b *pgx.Batch, parts []*part) {
	var logs, counts, of, before []int64
	all, byID := newInsert(0), map[int64]*part{}
	for _, p := range parts {
		count := 0
		if !p.once {
			count, byID[p.log.id] = len(p.group), p
			all.addAll(p.in)
		}
		logs, counts = append(logs, p.log.id), append(counts, int64(count))
		for i := range count {
			of, before = append(of, p.log.id), append(before, int64(i))
		}
	}
	b.Queue(n.s.in(`SELECT of_log, head FROM @.append_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`), logs, counts, of, before,
		all.ids, all.audiences, all.hashes, all.timestamps, all.data, all.meta, all.targets, all.cursors).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var id, head int64
				if err := rows.Scan(&id, &head); err != nil {
					return err
				}
				if p := byID[id]; p != nil {
					for i := range p.in.results {
						p.in.results[i] = result{position: store.Position(head) + store.Position(i) + 1, fresh: true}
					}
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

// rewound copies the results of a committed part to its appends. If the database was restored to an older state of
// the log, rewound begins new epochs, answers the appends with an error and returns true.
func (n *lane) rewound(p *part) bool {
	for i, a := range p.group {
		if a.result = p.in.results[i]; a.result.fresh && a.result.position <= p.told {
			ctx, cancel := n.s.limited(n.s.ctx)
			defer cancel()
			err := n.s.rewound(ctx, p.log.life, p.log.name, a.result.position, p.told)
			answer(p.group, fmt.Errorf("%w: %w", store.ErrUncertain, err)) // the entry exists, in the new epoch
			return true
		}
	}
	return false
}

// An announcement holds the entries of one log to be delivered to Appended.
type announcement struct {
	group []*appending
	own   []store.Entry
	to    store.Position
}

// announce delivers the entries of one or several transactions, in order, and answers the appends. A log that must be
// read first, or that another goroutine is reading, does not delay the others.
func (n *lane) announce(parts []*part) {
	all := map[*Log]*announcement{}
	for _, p := range parts {
		if all[p.log] == nil {
			all[p.log] = &announcement{}
		}
		all[p.log].group = append(all[p.log].group, p.group...)
	}
	var behind []*Log // other processes have appended in between
	upTo := map[*Log]head{}
	for l, a := range all {
		if a.own, a.to = fresh(a.group); len(a.own) > 0 {
			n.s.tail.mark(l.id)
			l.mu.Lock()
			if before := a.own[0].Position - 1; before > l.head {
				behind, upTo[l] = append(behind, l), head{head: before}
			}
			l.mu.Unlock()
		}
	}
	ctx, cancel := n.s.limited(n.s.ctx)
	read, _ := n.s.newest(ctx, behind, upTo) // after an error, each log is read separately
	cancel()
	for l, a := range all {
		if some := read[l]; len(some) > 0 && some[len(some)-1].Position == upTo[l].head {
			a.own = append(some, a.own...)
		}
		if l.tellNow(a.to, a.own) {
			answer(a.group, nil)
			continue
		}
		n.wg.Go(func() { answer(a.group, l.announce(a.own, a.to)) })
	}
}
