package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxConcurrentLogs is the maximum number of logs to which rows are moved concurrently.
	maxConcurrentLogs = 4
	// GroupMax is the maximum number of rows that are moved together. groupBytes is their maximum total size in bytes,
	// but a single row can be larger.
	GroupMax   = 512
	groupBytes = 4 << 20
)

// A Mover moves rows to their logs. Its writes are atomic with the move or protected by the same fence.
type Mover interface {
	DB
	// Move appends rows to their log, in order, and ensures that they are deleted. faults has, for each row, the
	// reason for rejecting it instead, or nil; faults itself may be nil. No two rows have the same id and
	// audience. Move is called from several goroutines. After an error that matches [engine.ErrNoLog] or
	// [engine.ErrRefused], rows are also rejected.
	Move(ctx context.Context, log string, rows []Row) (faults []error, err error)
}

// Step reads up to limit waiting rows, calls settle with them and records the progress for the owner with the given
// fence. If settle fails, no row is settled. Rows can appear before the last row that Step has read, because a
// transaction that began earlier can end later. Step finds these rows too (see [sweep]). Stuck logs are retried
// separately and do not block other logs.
func (t *Table) Step(ctx context.Context, db DB, fence uint64, limit int, settle func(ctx context.Context, rows []Row) (Settled, error)) (done engine.Sequenced, err error) {
	w := t.sweeping.forFence(fence)
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return done, ctx.Err()
	}
	limit = min(max(limit, 1), GroupMax)
	w.beginFullSweep(time.Now())
	main, err := t.readPage(ctx, db, &w.main, limit, w.stuckNames(), false)
	if err != nil {
		return done, err
	}
	if w.handleRestart(main.start) {
		return engine.Sequenced{More: true}, nil
	}
	rows := main.rows
	tried := map[string]*page{} // stuck logs
	for _, name := range w.dueLogs(time.Now()) {
		p, err := t.readPage(ctx, db, &w.stuck[name].sweep, limit, []string{name}, true)
		if err != nil {
			return done, err
		}
		tried[name] = p
		rows = append(rows, p.rows...)
	}
	var moved Settled
	done.Found = len(rows)
	if len(rows) > 0 {
		moved, err = settle(ctx, rows)
		if done.Rejected = moved.rejected; err != nil {
			for i := range rows {
				done.Oldest = max(done.Oldest, rows[i].age)
			}
			return done, err
		}
	}
	for name, p := range tried {
		if _, failed := moved.failed[name]; !failed {
			w.recordSuccess(name, p)
			done.More = done.More || p.more
		}
	}
	for name, f := range moved.failed {
		if w.recordFailure(name, time.Now(), oldestOfLog(rows, name)) {
			t.Logger.Warn("mcp events: events emitted in transactions are waiting, "+f.what, "log", name, "error", f.err)
		}
	}
	w.main.advance(main)
	done.More = done.More || main.more
	done.Oldest = w.oldestStuck(time.Now())
	if main.more {
		done.Oldest = max(done.Oldest, rows[len(main.rows)-1].age)
	}
	return done, nil
}

// oldestOfLog returns the age of a log's oldest row.
func oldestOfLog(rows []Row, log string) (age time.Duration) {
	for i := range rows {
		if rows[i].Log == log {
			age = max(age, rows[i].age)
		}
	}
	return age
}

// Settled is the result of settling rows.
type Settled struct {
	rejected int
	failed   map[string]failedMove // logs with rows that were not moved
}

type failedMove struct {
	what string
	err  error
}

// Settle moves rows to their logs; see [engine.Outbox]. It rejects rows that are invalid or that check rejects. If
// check fails for a row, or an append fails, the following rows of that log remain in the outbox.
func (t *Table) Settle(ctx context.Context, m Mover, rows []Row, check func(context.Context, store.Outgoing) (fault, err error)) (done Settled, err error) {
	done.failed = map[string]failedMove{}
	mine := map[string][]Row{}
	var bad []Row
	for i := range rows {
		r := &rows[i]
		if _, failed := done.failed[r.Log]; failed {
			continue
		}
		switch {
		case r.fault != nil:
		case strings.HasPrefix(r.Log, "/"):
			r.fault = fmt.Errorf("the log %q is internal to the servers", r.Log)
		case r.Log == "":
			r.fault = fmt.Errorf("no server has registered an event type %q", r.Log)
		default:
			if r.fault, err = check(ctx, r.Outgoing); err != nil {
				done.failed[r.Log] = failedMove{"the check failed", err}
				continue
			}
		}
		if r.fault != nil {
			bad = append(bad, *r)
		} else {
			mine[r.Log] = append(mine[r.Log], *r)
		}
	}
	var mu sync.Mutex
	var ends error // error that aborts the step
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentLogs)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			faulty, err := moveAll(ctx, m, name, mine[name])
			mu.Lock()
			defer mu.Unlock()
			bad = append(bad, faulty...)
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
	if ends != nil || len(bad) == 0 {
		return done, ends
	}
	slices.SortFunc(bad, func(a, b Row) int { return cmp.Or(cmp.Compare(a.tx, b.tx), cmp.Compare(a.id, b.id)) })
	if err := t.reject(ctx, m, bad); err != nil {
		return done, err
	}
	done.rejected = len(bad)
	return done, nil
}

// moveAll moves rows of one log until an append fails. It returns the rows to reject.
func moveAll(ctx context.Context, m Mover, log string, rows []Row) (faulty []Row, err error) {
	for len(rows) > 0 {
		n := groupSize(rows)
		some, err := moveGroup(ctx, m, log, rows[:n])
		if faulty = append(faulty, some...); err != nil {
			return faulty, err
		}
		rows = rows[n:]
	}
	return faulty, nil
}

// moveGroup moves rows together. If the store refuses a row, it moves the rows one by one.
func moveGroup(ctx context.Context, m Mover, log string, rows []Row) (faulty []Row, err error) {
	faults, err := m.Move(ctx, log, rows)
	switch {
	case errors.Is(err, engine.ErrNoLog):
		faults, err = slices.Repeat([]error{fmt.Errorf("no server has registered an event type %q", log)}, len(rows)), nil
	case errors.Is(err, engine.ErrRefused) && len(rows) == 1:
		faults, err = []error{err}, nil
	case errors.Is(err, engine.ErrRefused):
		for i := range rows {
			some, err := moveGroup(ctx, m, log, rows[i:i+1])
			if faulty = append(faulty, some...); err != nil {
				return faulty, err
			}
		}
		return faulty, nil
	}
	for i, fault := range faults {
		if fault != nil {
			r := rows[i]
			r.fault = fault
			faulty = append(faulty, r)
		}
	}
	return faulty, err
}

// groupSize returns the number of leading rows that can be appended together. A group ends before an id is repeated for
// the same audience or the total size exceeds groupBytes.
func groupSize(rows []Row) int {
	type key struct{ id, audience string }
	seen, size := make(map[key]bool, len(rows)), 0
	for i := range rows {
		e := &rows[i].Entry
		k := key{e.EventID, store.Audience(e.Targets)}
		size += len(e.Data) + len(e.Meta)
		if i > 0 && (seen[k] || size > groupBytes) {
			return i
		}
		seen[k] = true
	}
	return len(rows)
}
