package outbox

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// fullSweepInterval is the interval at which the owner reads the outbox from the beginning. This is necessary
	// because a role with insert permission can set the number of a transaction that ended long ago.
	fullSweepInterval = time.Minute
	// maxAge is the maximum plausible age of a row.
	maxAge = 10 * 365 * 24 * time.Hour
	// movePause is how long a log is skipped after a failure. moveLogInterval is how often the failure is logged.
	movePause       = time.Second
	moveLogInterval = time.Minute
)

// A snapshot identifies the transactions that had ended at a given time. Their rows in the outbox were visible then.
type snapshot struct {
	next   int64   // the first transaction that had not begun
	active []int64 // earlier transactions that had not ended
}

// emptySnapshot is a snapshot from before any transaction began.
var emptySnapshot = snapshot{next: math.MinInt64}

// parseSnapshot parses the text form of a PostgreSQL snapshot, "xmin:xmax:active,active".
func parseSnapshot(text string) (s snapshot, err error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return s, fmt.Errorf("%q is not a snapshot", text)
	}
	if s.next, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return s, err
	}
	for of := range strings.SplitSeq(parts[2], ",") {
		if of == "" {
			continue
		}
		tx, err := strconv.ParseInt(of, 10, 64)
		if err != nil {
			return s, err
		}
		s.active = append(s.active, tx)
	}
	return s, nil
}

// A rowPosition is a position in the outbox. Rows are ordered by transaction and then by id. A transaction that begins
// after another one has ended has a higher number.
type rowPosition struct{ tx, id int64 }

var first = rowPosition{math.MinInt64, math.MinInt64}

// A sweep is one pass over the outbox, page by page. It reads every row that was visible when it began, but not when
// the previous sweep began.
type sweep struct {
	since  snapshot // when the previous sweep began
	began  *snapshot
	behind rowPosition // position of the last row that was read
}

func newSweep(since snapshot) sweep { return sweep{since: since, behind: first} }

// again restarts the sweep.
func (w *sweep) again() { *w = newSweep(w.since) }

// advance moves the sweep past a page. After the last page, it starts the next sweep, which reads the rows that were
// not visible when this sweep began.
func (w *sweep) advance(p *page) {
	if w.began == nil {
		w.began = &p.at
	}
	if p.more {
		w.behind = p.rows[len(p.rows)-1].rowPosition
		return
	}
	*w = newSweep(*w.began)
}

// A page contains consecutive rows of a sweep.
type page struct {
	at    snapshot
	start time.Time // when the server started
	rows  []Row
	more  bool // the sweep might have more rows
}

// A sweepState holds the state of the outbox's owner between steps.
type sweepState struct {
	mu  sync.Mutex
	now *sweeper
}

// forFence returns the state of the owner with the given fence. It returns an empty state if the fence is new.
func (s *sweepState) forFence(fence uint64) *sweeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil || s.now.fence != fence {
		s.now = &sweeper{fence: fence, turn: make(chan struct{}, 1)}
	}
	return s.now
}

// A sweeper is the state of an owner with one fence. A goroutine must hold turn to access it.
type sweeper struct {
	fence uint64
	turn  chan struct{} // capacity 1

	start time.Time // when the last queried server started
	whole time.Time // when the last full sweep began
	main  sweep     // all logs that are not stuck
	stuck map[string]*stuckLog
}

// A stuckLog is a log to which an append failed. The main sweep skips the log, and a separate sweep reads its rows.
type stuckLog struct {
	sweep
	until time.Time // skipped until then
	told  time.Time
	came  time.Time // time of its oldest row
}

// beginFullSweep starts a full sweep if one is due.
func (w *sweeper) beginFullSweep(now time.Time) {
	if w.main.began == nil && now.Sub(w.whole) >= fullSweepInterval {
		w.main, w.whole = newSweep(emptySnapshot), now
	}
}

// handleRestart restarts all sweeps and returns true if the server has restarted or was replaced by another server,
// because a standby might reuse transaction numbers.
func (w *sweeper) handleRestart(start time.Time) bool {
	if w.start.Equal(start) {
		return false
	}
	known := !w.start.IsZero()
	w.start = start
	if !known {
		return false
	}
	w.main = newSweep(emptySnapshot)
	for _, l := range w.stuck {
		l.sweep = newSweep(emptySnapshot)
	}
	return true
}

// stuckNames returns the sorted names of the stuck logs, which the main sweep skips.
func (w *sweeper) stuckNames() []string {
	names := make([]string, 0, len(w.stuck))
	for name := range w.stuck {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// dueLogs returns the names of up to maxConcurrentLogs stuck logs to retry now. The log that has waited longest comes
// first.
func (w *sweeper) dueLogs(now time.Time) []string {
	names := w.stuckNames()
	names = slices.DeleteFunc(names, func(name string) bool { return now.Before(w.stuck[name].until) })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(w.stuck[a].until.UnixNano(), w.stuck[b].until.UnixNano()) })
	return names[:min(len(names), maxConcurrentLogs)]
}

// recordFailure records that an append to a log failed, and reports whether to log the failure.
func (w *sweeper) recordFailure(name string, now time.Time, oldest time.Duration) (tell bool) {
	l := w.stuck[name]
	if l == nil {
		if w.stuck == nil {
			w.stuck = map[string]*stuckLog{}
		}
		l = &stuckLog{sweep: newSweep(w.main.since)}
		w.stuck[name] = l
	}
	l.again()
	l.until, l.came = now.Add(movePause), now.Add(-oldest)
	if tell = now.Sub(l.told) >= moveLogInterval; tell {
		l.told = now
	}
	return tell
}

// oldestStuck returns the age of the oldest row among all stuck logs.
func (w *sweeper) oldestStuck(now time.Time) (age time.Duration) {
	for _, l := range w.stuck {
		age = max(age, now.Sub(l.came))
	}
	return age
}

// recordSuccess records that all rows in a page of a stuck log were moved.
func (w *sweeper) recordSuccess(name string, p *page) {
	if p.more {
		w.stuck[name].advance(p)
		return
	}
	delete(w.stuck, name) // the main sweep reads later rows
}

// pageSQL reads a page. $5 to $7 are ranges of row positions. Each range is expressed only as bounds on (tx, id), so
// the query scans only these ranges of that index.
const pageSQL = `WITH read AS (
		SELECT o.* FROM unnest($5::bigint[], $6::bigint[], $7::bigint[]) AS r (tx, id, up_to) CROSS JOIN LATERAL (
			SELECT * FROM @.outbox WHERE (tx, id) >= (r.tx, r.id) AND tx <= r.up_to AND (log = ANY ($2)) = $8 ORDER BY tx, id LIMIT $1) AS o
		ORDER BY tx, id LIMIT $1
	), measured AS (
		SELECT *, octet_length(event_id)::bigint + octet_length(timestamp) + octet_length(data) + coalesce(octet_length(meta), 0)
			+ coalesce(octet_length(targets), 0) AS size FROM read
	), bounded AS (
		SELECT *, size <= $3 AS fits, sum(least(size, $3)) OVER (ORDER BY tx, id) - least(size, $3) AS before FROM measured
	)
	SELECT pg_current_snapshot()::text, pg_postmaster_start_time(), b.tx, b.id, CASE WHEN octet_length(log) <= $4 THEN log END,
		CASE WHEN fits THEN event_id END, CASE WHEN fits THEN timestamp END, CASE WHEN fits THEN data END, CASE WHEN fits THEN meta END,
		CASE WHEN fits THEN targets END, once, above, size, (extract(epoch FROM clock_timestamp()) - extract(epoch FROM b.at))::float8
	FROM (VALUES (1)) AS one LEFT JOIN bounded b ON before < $3 ORDER BY b.tx, b.id`

// pageArgs returns the arguments of pageSQL for the next page of a sweep. If only is set, the page contains rows of the
// given logs. Otherwise it contains rows of all other logs.
func pageArgs(w *sweep, limit int, logs []string, only bool) []any {
	var txs, ids, upTo []int64
	between := func(from, to int64) { // a range of transactions
		at := rowPosition{from, math.MinInt64}
		if w.behind.tx >= from {
			at = rowPosition{w.behind.tx, w.behind.id + 1}
		}
		if at.tx <= to {
			txs, ids, upTo = append(txs, at.tx), append(ids, at.id), append(upTo, to)
		}
	}
	for _, tx := range w.since.active {
		between(tx, tx)
	}
	if w.began == nil {
		between(w.since.next, math.MaxInt64) // the snapshot already limits this to the sweep
	} else {
		between(w.since.next, w.began.next-1)
	}
	return []any{int64(limit), logs, int64(maxWaiting), int32(MaxName), txs, ids, upTo, only}
}

// A pageRow is a result row of pageSQL. If the page is empty, the only result row contains no outbox row.
type pageRow struct {
	at    string
	start time.Time
	row   *Row
}

func scanLooked(row pgx.CollectableRow) (l pageRow, err error) {
	var tx, id, above, size *int64
	var age *float64
	var once *bool
	var name, timestamp *string
	var eventID, data, meta, targets []byte
	err = row.Scan(&l.at, &l.start, &tx, &id, &name, &eventID, &timestamp, &data, &meta, &targets, &once, &above, &size, &age)
	if err != nil || tx == nil {
		return l, err
	}
	l.row = &Row{rowPosition: rowPosition{*tx, *id}, Outgoing: store.Outgoing{Once: *once}, size: *size, age: Age(*age)}
	if name == nil {
		l.row.fault = fmt.Errorf("the name of its log has more than %d bytes", MaxName)
		return l, nil
	}
	l.row.Log = *name
	l.row.decode(eventID, timestamp, data, meta, targets, *above)
	return l, nil
}

// Age converts the age of a row from seconds, or returns 0 if it is not plausible. A role with insert permission can
// set any time.
func Age(seconds float64) time.Duration {
	if seconds > 0 && seconds < maxAge.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return 0
}

// Looking returns, for cost measurements, the statement that reads the next page of up to limit rows. It also returns
// the number of ranges that the statement reads. It must not be called before the first step.
func (t *Table) Looking(limit int) (sql string, args []any, ranges int) {
	w := t.sweeping.now
	args = pageArgs(&w.main, limit, w.stuckNames(), false)
	return t.qualify(pageSQL), args, len(args[4].([]int64))
}

// readPage reads the next page of a sweep.
func (t *Table) readPage(ctx context.Context, db DB, w *sweep, limit int, logs []string, only bool) (*page, error) {
	var all []pageRow
	err := db.Read(ctx, func(rows pgx.Rows) (err error) {
		all, err = pgx.CollectRows(rows, scanLooked)
		return err
	}, t.qualify(pageSQL), pageArgs(w, limit, logs, only)...)
	if err != nil {
		return nil, err
	}
	p := &page{start: all[0].start}
	if p.at, err = parseSnapshot(all[0].at); err != nil {
		return nil, err
	}
	size := int64(0)
	for _, l := range all {
		if l.row != nil {
			p.rows = append(p.rows, *l.row)
			size += min(l.row.size, maxWaiting)
		}
	}
	p.more = len(p.rows) == limit || size >= maxWaiting
	return p, nil
}
