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
	// lanes is how many transactions of appends a process makes at once. A log's are always in the same lane, and that
	// is the same in every process: those that append to other lanes' logs do not wait for each other.
	lanes = 2
	// togetherMax bounds how many logs share a transaction, and togetherBytes what they append in it.
	togetherMax   = 64
	togetherBytes = 1 << 20
	// togetherWait bounds how long the others of a transaction wait for one log that somebody has locked.
	togetherWait = 250 * time.Millisecond
	// gatherPart of what a commit took is waited for more to commit, maxGather at most.
	gatherPart = 3
	maxGather  = 2 * time.Millisecond
)

// A lane commits what waits to be appended to its logs: one transaction after the other has what came during the one
// before, of all logs, since a transaction costs more than a log's part in it. A log that is locked, whose appends are
// refused or large leaves the lane until an append to it has succeeded.
type lane struct {
	s *Store

	mu       sync.Mutex
	logs     []*Log // that have appends which wait, in the order of their turns
	waiting  int    // appends of those
	running  bool
	expected int           // how many are waited for; 0 for none
	gathered chan struct{} // capacity 1: they are there
	closed   bool
	wg       sync.WaitGroup // of the goroutines; added to under mu while not closed, or by one of them
}

func newLane(s *Store) *lane { return &lane{s: s, gathered: make(chan struct{}, 1)} }

// appends are those of a log that wait.
type appends struct {
	queue    []*appending
	listed   bool    // it is in lane.logs
	apart    bool    // it has left the lane
	returned []*part // transactions that were rolled back because of it
	alone    bool    // it has a goroutine of its own
}

// A part is what one log appends in a transaction.
type part struct {
	log   *Log
	group []*appending
	size  int
	in    *insert
	once  bool           // some of it may stand already
	told  store.Position // the log's head before
	read  bool           // the transaction came as far as the log's own statement
	err   error          // it is not in the transaction
}

// add makes an append wait for the next transaction.
func (n *lane) add(l *Log, a *appending) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return store.ErrClosed
	}
	l.queue = append(l.queue, a)
	switch {
	case l.alone: // it goes on, or lets the log come back
		return nil
	case l.apart:
		n.leave(l)
		return nil
	}
	if n.waiting++; n.waiting == n.expected {
		select {
		case n.gathered <- struct{}{}:
		default: // somebody has withdrawn since
		}
	}
	n.enlist(l)
	return nil
}

// enlist gives a log that has appends a turn; mu is held.
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

// leave gives a log transactions of its own; mu is held.
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

// withdraw takes back an append whose transaction has not begun.
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

// close takes no more appends and returns when those that wait are done.
func (n *lane) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.wg.Wait()
}

// run commits what waits until nothing does. While others are told of one transaction the next is committed.
func (n *lane) run() {
	committed := make(chan []*part, 4)
	n.wg.Go(func() {
		for parts := range committed {
			for more := true; more; { // what others appended in between is read for all that wait at once
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
		// Logs are locked in order of their ids, as every replica does it.
		slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.log.id, b.log.id) })
		for each := false; len(parts) > 0; each = true {
			parts = n.together(parts, each, committed)
		}
		n.gather(count, time.Since(began))
	}
	close(committed)
}

// take claims what waits, within the bounds of a transaction; nil ends who runs. Logs of which more waits have their
// next turn after the others.
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

// gather waits for those whose appends were committed to come back, so that the next transaction has them too: it
// costs much the same for one entry as for many. It waits for a part of what the last one took and not at all for who
// is alone.
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
	case <-n.gathered: // it came just now
	default:
	}
}

// together commits parts of several logs in one transaction, passes them on, and returns those that are to have another
// one. Where that is refused another one tells because of which log, by a statement for each of them.
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

// runAlone commits what waits of a log that has left the lane, and lets it come back.
func (n *lane) runAlone(l *Log) {
	for p := n.takeAlone(l); p != nil; p = n.takeAlone(l) {
		n.s.apart <- struct{}{}
		err := n.single(p)
		if err != nil && len(p.group) > 1 && refused(err) { // only those fail that are at fault
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

// takeAlone claims what waits of a log; nil ends who runs.
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

// single commits a log's part by itself, and passes it on.
func (n *lane) single(p *part) error {
	err := n.transact(p.log.life, []*part{p}, 0, true)
	if gone(err) { // a look finds that an older state was put back, and begins new epochs
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

// refused tells that the server has refused what one of a transaction's logs appends, or could not lock it in time.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !errors.Is(err, store.ErrUncertain) && !errors.Is(err, engine.ErrNewEpoch)
}

// transact appends the parts of logs that are in a life, but for those that it gives an error, anew where the transaction
// met another one. each tells that they do not share statements.
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
			// Logs are looked at again in each attempt: the generation may be over.
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

// prepare makes a part ready for a transaction.
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

// queueAll queues the appends of several logs: in one statement, which locks all of them, and one for each that has
// entries which may stand already.
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

// rewound takes over what became of a part that was committed. Where the log was put back to an older state it begins new
// epochs, answers and returns true.
func (n *lane) rewound(p *part) bool {
	for i, a := range p.group {
		if a.result = p.in.results[i]; a.result.fresh && a.result.position <= p.told {
			ctx, cancel := n.s.limited(n.s.ctx)
			defer cancel()
			err := n.s.rewound(ctx, p.log.life, p.log.name, a.result.position, p.told)
			answer(p.group, fmt.Errorf("%w: %w", store.ErrUncertain, err)) // it stands, in the new epoch
			return true
		}
	}
	return false
}

// An announcement is what Appended of one log is to be told.
type announcement struct {
	group []*appending
	own   []store.Entry
	to    store.Position
}

// announce tells of what was committed, in one transaction or several in their order, and answers it. A log that has to
// be read first, or that somebody else reads, holds up no other.
func (n *lane) announce(parts []*part) {
	all := map[*Log]*announcement{}
	for _, p := range parts {
		if all[p.log] == nil {
			all[p.log] = &announcement{}
		}
		all[p.log].group = append(all[p.log].group, p.group...)
	}
	var behind []*Log // others have appended in between
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
	read, _ := n.s.newest(ctx, behind, upTo) // what fails is read log by log
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
