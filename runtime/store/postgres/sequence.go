package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxWaiting bounds the bytes of a row of the outbox; a larger one is put aside unread. One look takes
	// as many together.
	maxWaiting = 16 << 20
	// movers is how many logs are moved to at once, and moveWait how long one of them may wait for a lock that
	// somebody has.
	movers   = 4
	moveWait = 400 * time.Millisecond
)

// An outboxEntry is a row of the outbox.
type outboxEntry struct {
	place
	store.Outgoing
	size  int64
	age   time.Duration
	fault error // why it is put aside
}

// Sequence implements [engine.Outbox]. It never looks only beyond the last row that it saw: a transaction
// that began earlier may end later (see [sweep]). Each log's rows are a step of their own.
func (s *Store) Sequence(ctx context.Context, h engine.Hold, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (done engine.Sequenced, err error) {
	if h.Shard.Topic != engine.OutboxTopic {
		return done, fmt.Errorf("%w: %v is not the outbox", engine.ErrFenced, h.Shard)
	}
	w := s.sweeping.of(h)
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return done, ctx.Err()
	}
	limit = min(max(limit, 1), groupMax)
	w.begin(time.Now())
	main, err := s.look(ctx, &w.main, limit, w.alone(), false)
	if err != nil {
		return done, err
	}
	if w.moved(main.start) {
		return engine.Sequenced{More: true}, nil
	}
	rows := main.rows
	tried := map[string]*page{} // stuck logs
	for _, name := range w.due(time.Now()) {
		p, err := s.look(ctx, &w.stuck[name].sweep, limit, []string{name}, true)
		if err != nil {
			return done, err
		}
		tried[name] = p
		rows = append(rows, p.rows...)
	}
	moved, err := s.settle(ctx, h, rows, check)
	done.Found, done.Rejected = len(rows), moved.rejected
	if err != nil {
		return done, err
	}
	for name, p := range tried {
		if _, failed := moved.failed[name]; !failed {
			w.succeeded(name, p)
			done.More = done.More || p.more
		}
	}
	for name, f := range moved.failed {
		if w.failed(name, time.Now(), oldest(rows, name)) {
			s.options.Logger.Warn("mcp events: what transactions emitted waits, "+f.what, "log", name, "error", f.err)
		}
	}
	w.main.done(main)
	done.More = done.More || main.more
	done.Oldest = w.oldest(time.Now())
	if main.more {
		done.Oldest = max(done.Oldest, rows[len(main.rows)-1].age)
	}
	return done, nil
}

// oldest is for how long the oldest row of a log has waited.
func oldest(rows []outboxEntry, log string) (age time.Duration) {
	for i := range rows {
		if rows[i].Log == log {
			age = max(age, rows[i].age)
		}
	}
	return age
}

// A settled is what became of rows.
type settled struct {
	rejected int
	failed   map[string]failedMove // by log: not all of its rows were moved
}

type failedMove struct {
	what string
	err  error
}

// settle moves rows to their logs, and puts those aside that are no occurrences. Of a log that a fault cannot be
// told of now nothing is moved from there on.
func (s *Store) settle(ctx context.Context, h engine.Hold, rows []outboxEntry, check func(context.Context, store.Outgoing) (fault, err error)) (done settled, err error) {
	done.failed = map[string]failedMove{}
	if len(rows) == 0 {
		return done, nil
	}
	names := map[string]bool{}
	for i := range rows {
		if rows[i].fault == nil {
			names[rows[i].Log] = true
		}
	}
	logs, err := s.logsOf(ctx, slices.Collect(maps.Keys(names)))
	if err != nil {
		return done, err
	}
	mine := map[string][]outboxEntry{}
	var bad []outboxEntry
	for i := range rows {
		r := &rows[i]
		if _, failed := done.failed[r.Log]; failed {
			continue
		}
		switch {
		case r.fault != nil:
		case strings.HasPrefix(r.Log, "/"):
			r.fault = fmt.Errorf("the log %q is the servers' own", r.Log)
		case logs[r.Log] == nil:
			r.fault = fmt.Errorf("no server has registered an event type %q", r.Log)
		default:
			if r.fault, err = check(ctx, r.Outgoing); err != nil {
				done.failed[r.Log] = failedMove{"it cannot be judged", err}
				continue
			}
		}
		if r.fault != nil {
			bad = append(bad, *r)
		} else {
			mine[r.Log] = append(mine[r.Log], *r)
		}
	}
	if len(bad) > 0 {
		if err := s.reject(ctx, h, bad); err != nil {
			return done, err
		}
		done.rejected = len(bad)
	}
	var mu sync.Mutex
	var ends error // of the step as a whole
	var wg sync.WaitGroup
	slots := make(chan struct{}, movers)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			rejected, err := s.moveAll(ctx, h, logs[name], mine[name])
			mu.Lock()
			defer mu.Unlock()
			done.rejected += rejected
			switch {
			case err == nil:
			case errors.Is(err, engine.ErrFenced) || ctx.Err() != nil:
				ends = err
			default:
				done.failed[name] = failedMove{"it cannot be appended to its log", err}
			}
		})
	}
	wg.Wait()
	return done, ends
}

// decode sets the entry, or the fault of a row that is none.
func (r *outboxEntry) decode(id []byte, timestamp *string, data, meta, targets []byte, above int64) {
	if timestamp == nil {
		r.fault = fmt.Errorf("it has %d bytes, at most %d are taken", r.size, maxWaiting)
		return
	}
	r.Entry = store.Entry{EventID: string(id), Data: data}
	if len(meta) > 0 { // some drivers write an empty one for none
		r.Entry.Meta = meta
	}
	at, err := events.ParseTime(*timestamp)
	if err == nil {
		_, err = at.MarshalText()
	}
	switch {
	case err != nil:
		r.fault = fmt.Errorf("its timestamp is none: %w", err)
		return
	case above < 0:
		r.fault = fmt.Errorf("its above is %d, at least 0", above)
		return
	}
	r.Entry.Timestamp, r.Above = at, store.Position(above)
	if len(targets) == 0 {
		return
	}
	if err := json.Unmarshal(targets, &r.Entry.Targets); err != nil || len(r.Entry.Targets) == 0 {
		r.fault = errors.New("its targets are no JSON array of ids of subscriptions")
	}
}

// logsOf returns the logs of those names, as far as a server has opened them: an owner of the outbox
// moves what others emit, of types that it need not know.
func (s *Store) logsOf(ctx context.Context, names []string) (map[string]*Log, error) {
	logs := map[string]*Log{}
	var unknown []string
	s.mu.Lock()
	for _, name := range names {
		if l := s.logs[name]; l != nil {
			logs[name] = l
		} else {
			unknown = append(unknown, name)
		}
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return logs, nil
	}
	err := s.query(ctx, func(row pgx.CollectableRow) error {
		l := &Log{s: s}
		err := row.Scan(&l.id, &l.name)
		logs[l.name] = l
		return err
	}, `SELECT id, name FROM @.logs WHERE name = ANY ($1)`, unknown)
	return logs, err
}

// moveAll moves rows of one log.
func (s *Store) moveAll(ctx context.Context, h engine.Hold, l *Log, rows []outboxEntry) (rejected int, err error) {
	for len(rows) > 0 {
		n := distinct(rows)
		some, err := s.moveGroup(ctx, h, l, rows[:n])
		if rejected += some; err != nil {
			return rejected, err
		}
		rows = rows[n:]
	}
	return rejected, nil
}

// moveGroup moves rows together, and one by one where the server refuses what is in one of them: that is
// put aside.
func (s *Store) moveGroup(ctx context.Context, h engine.Hold, l *Log, rows []outboxEntry) (rejected int, err error) {
	if err = s.move(ctx, h, l, rows); !errors.Is(err, engine.ErrRefused) {
		return 0, err
	}
	if len(rows) == 1 {
		rows[0].fault = err
		return 1, s.reject(ctx, h, rows)
	}
	for i := range rows {
		some, err := s.moveGroup(ctx, h, l, rows[i:i+1])
		if rejected += some; err != nil {
			return rejected, err
		}
	}
	return rejected, nil
}

// refusedData tells that the server refuses values, and not the statement or the moment: data exceptions,
// violated constraints and its limits.
func refusedData(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "54"))
}

// distinct is how many rows from the first on can be appended in one statement: until an id comes
// again that must not stand twice, or they become large.
func distinct(rows []outboxEntry) int {
	seen, size := make(map[int64]bool, len(rows)), 0
	for i, r := range rows {
		k := idHash([]byte(r.Entry.EventID), audience(r.Entry.Targets))
		size += len(r.Entry.Data) + len(r.Entry.Meta)
		if i > 0 && (r.Once && seen[k] || size > groupBytes) {
			return i
		}
		seen[k] = true
	}
	return len(rows)
}

// move appends rows of one log and deletes them, in one step under the hold.
func (s *Store) move(ctx context.Context, h engine.Hold, l *Log, rows []outboxEntry) error {
	group, ids := make([]store.Outgoing, len(rows)), make([]int64, len(rows))
	for i := range rows {
		group[i], ids[i] = rows[i].Outgoing, rows[i].id
	}
	done, err := s.appendGroup(ctx, l, group, func(b *pgx.Batch) { s.held(b, h) }, func(b *pgx.Batch) {
		b.Queue(s.in(`DELETE FROM @.outbox WHERE id = ANY ($1)`), ids)
	})
	for i := range done {
		if done[i].Err != nil {
			s.options.Logger.Error("mcp events: an occurrence of a transaction was dropped", "log", l.name, "eventId", group[i].Entry.EventID, "error", done[i].Err)
		}
	}
	return err
}

// AppendGroup implements [engine.Shared].
func (s *Store) AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]engine.Appended, error) {
	logs, err := s.logsOf(ctx, []string{log})
	if err != nil {
		return nil, err
	}
	l := logs[log]
	if l == nil {
		return nil, fmt.Errorf("log %q: %w", log, engine.ErrNoLog)
	}
	none := func(*pgx.Batch) {}
	return s.appendGroup(ctx, l, group, none, none)
}

// appendGroup appends to a log, in one step with what is queued before and after.
func (s *Store) appendGroup(ctx context.Context, l *Log, group []store.Outgoing, before, after func(b *pgx.Batch)) ([]engine.Appended, error) {
	in := newInsert(len(group))
	for i := range group {
		r, err := newRow(&group[i].Entry)
		if err != nil {
			return nil, err
		}
		in.add(&r, group[i].Once, group[i].Above)
	}
	err := s.attempt(ctx, func(ctx context.Context) error {
		b := &pgx.Batch{}
		generation, timeline := s.life()
		s.begunIn(b, generation, timeline)
		b.Queue(`SELECT set_config('lock_timeout', $1, true)`, fmt.Sprint(moveWait.Milliseconds()))
		before(b)
		l.queueInsert(b, in, func() {})
		after(b)
		return s.pool.SendBatch(ctx, b).Close()
	})
	if refusedData(err) {
		return nil, fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
	if err != nil {
		return nil, uncertain(err)
	}
	done := make([]engine.Appended, len(group))
	var own []store.Entry
	for i, r := range in.results {
		done[i] = engine.Appended{Position: r.position, Fresh: r.fresh}
		if r.fresh {
			e := group[i].Entry
			e.Position = r.position
			own = append(own, e)
		} else if err := store.Repeats(r.position, r.stands, group[i].Entry.Data); errors.Is(err, events.ErrIDReused) {
			done[i].Err = err
		}
	}
	s.tail.mark(l.id)
	s.mu.Lock()
	here := s.logs[l.name] == l
	s.mu.Unlock()
	if !here || len(own) == 0 {
		return done, nil // nobody of this process reads it
	}
	ctx, cancel := context.WithTimeout(ctx, moveWait)
	defer cancel()
	if err := l.advance(ctx, in.highest(), own); err != nil {
		s.tail.hear(" " + everything) // it is moved; the tail tells of it
	}
	return done, nil
}
