package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// notifyEvery is the minimum time between two notifications of a replica. The appends in between share one.
	notifyEvery = 5 * time.Millisecond
	// notifyMax bounds the number of logs in one notification; for more logs, everything stands for all.
	notifyMax = 300
	// lookEvery is the minimum time between two looks caused by notifications. A look costs much the same for one
	// entry as for many: each entry that a look found adds lookMore to the time, up to lookMost in all.
	lookEvery = 5 * time.Millisecond
	lookMore  = 100 * time.Microsecond
	lookMost  = 25 * time.Millisecond
	// hearTime bounds how long the first notification that a replica sends to itself may take.
	hearTime = 3 * time.Second
	// readers bounds how many logs are followed concurrently.
	readers = 4
)

// everything stands for all logs in a notification.
const everything = "*"

// A tail follows the appends of other replicas, and notifies them of appends of this one.
type tail struct {
	s    *Store
	name string // of this replica in notifications

	mu      sync.Mutex
	marked  map[int64]bool // logs with appends of this process not yet announced
	sending bool           // a notification is in progress
	wanted  map[int64]bool // logs to look at
	all     bool           // look at all of them
	changed chan struct{}  // capacity 1: marked is not empty
	wake    chan struct{}  // capacity 1: wanted is not empty

	warnOnce sync.Once // about LISTEN without effect
}

func newTail(s *Store) *tail {
	return &tail{s: s, name: rand.Text(), marked: map[int64]bool{}, wanted: map[int64]bool{}, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// mark records that this process has appended to a log.
func (t *tail) mark(id int64) {
	t.mu.Lock()
	t.marked[id] = true
	t.mu.Unlock()
	signal(t.changed)
}

// notify notifies other replicas. NOTIFY takes a lock on the whole database at commit, so it has a separate
// transaction, for which no append waits. If a notification is lost, the next look of the other replicas finds the
// entries.
func (t *tail) notify() {
	for {
		select {
		case <-t.changed:
		case <-t.s.ctx.Done():
			return
		}
		t.mu.Lock()
		ids := t.marked
		t.marked, t.sending = map[int64]bool{}, len(ids) > 0
		t.mu.Unlock()
		if len(ids) == 0 {
			continue // the previous notification included them
		}
		text := everything
		if len(ids) <= notifyMax {
			var b []string
			for id := range ids {
				b = append(b, strconv.FormatInt(id, 36))
			}
			slices.Sort(b)
			text = strings.Join(b, ",")
		}
		ctx, cancel := context.WithTimeout(t.s.ctx, 5*time.Second)
		_, err := t.s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", t.s.channel, t.name+" "+text)
		cancel()
		t.mu.Lock()
		t.sending = false
		t.mu.Unlock()
		if err != nil && t.s.ctx.Err() == nil {
			t.s.options.Logger.Debug("mcp events: a notification was lost", "error", err)
		}
		if !t.s.pause(notifyEvery) {
			return
		}
	}
}

// pause waits for d. It returns false if the store is closed meanwhile.
func (s *Store) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// hear handles a notification.
func (t *tail) hear(text string) {
	from, ids, _ := strings.Cut(text, " ")
	if from == t.name {
		return // Appended has already seen this process's appends
	}
	t.mu.Lock()
	for id := range strings.SplitSeq(ids, ",") {
		if n, err := strconv.ParseInt(id, 36, 64); err == nil {
			t.wanted[n] = true
		} else {
			t.all = true
		}
	}
	t.mu.Unlock()
	signal(t.wake)
}

// listen receives notifications until the store is closed.
func (t *tail) listen(config *pgx.ConnConfig) {
	warned := false
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		began := time.Now()
		err := t.listenOnce(config)
		if t.s.ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			wait, warned = 100*time.Millisecond, false
		}
		if !warned {
			t.s.options.Logger.Warn("mcp events: not listening for notifications, polling every "+t.s.options.Poll.String(), "error", err)
			warned = true
		}
		if !t.s.pause(wait) {
			return
		}
	}
}

func (t *tail) listenOnce(config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(t.s.ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.PgConn().Exec(t.s.ctx, "LISTEN "+t.s.channel).ReadAll(); err != nil {
		return err
	}
	t.hear(" " + everything) // earlier notifications were lost
	heard := t.callSelf()
	defer heard()
	for {
		n, err := conn.WaitForNotification(t.s.ctx)
		if err != nil {
			return err
		}
		heard()
		t.hear(n.Payload)
	}
}

// callSelf notifies this replica, to find out whether LISTEN has an effect. It logs a warning unless heard is called
// within hearTime. Log 0 does not exist, so that other replicas do nothing.
func (t *tail) callSelf() (heard func()) {
	ctx, cancel := context.WithTimeout(t.s.ctx, 5*time.Second)
	defer cancel()
	if _, err := t.s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", t.s.channel, t.name+" 0"); err != nil {
		return func() {} // no notification was sent
	}
	timer := time.AfterFunc(hearTime, t.deaf)
	return func() { timer.Stop() }
}

// deaf warns once that LISTEN has no effect: a pooler in transaction mode accepts it but drops the notifications.
func (t *tail) deaf() {
	t.warnOnce.Do(func() {
		t.s.options.Logger.Warn("mcp events: LISTEN receives no notifications, so this process sees appends of other processes only every "+t.s.options.Poll.String()+
			": the connection may lead through a pooler in transaction mode, or to another database; set postgres.Options.Listen to a "+
			"connection string that leads to the server itself, and Pooled", "waited", hearTime)
	})
}

// run looks for appends of other processes: immediately after a notification, and in all logs every Poll.
func (t *tail) run() {
	ticker := time.NewTicker(t.s.options.Poll)
	defer ticker.Stop()
	slots := make(chan struct{}, readers)
	var wg sync.WaitGroup
	defer wg.Wait()
	failing := false
	for {
		all := false
		select {
		case <-t.s.ctx.Done():
			return
		case <-ticker.C:
			all = true
		case <-t.wake:
		}
		t.mu.Lock()
		wanted := t.wanted
		all = all || t.all
		t.wanted, t.all = map[int64]bool{}, false
		t.mu.Unlock()
		logs := t.s.open(wanted, all)
		if len(logs) == 0 {
			continue
		}
		found, err := t.look(logs, slots, &wg)
		if t.s.ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			t.s.options.Logger.Warn("mcp events: reading other replicas' appends failed", "error", err)
		}
		failing = err != nil
		if !t.s.pause(min(lookEvery+time.Duration(found)*lookMore, lookMost)) {
			return
		}
	}
}

// open returns the open logs with the given ids, or all open logs.
func (s *Store) open(ids map[int64]bool, all bool) map[int64]*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := map[int64]*Log{}
	for _, l := range s.logs {
		if all || ids[l.id] {
			logs[l.id] = l
		}
	}
	return logs
}

// look reads the heads of logs in one query and follows the logs that have grown. found is the number of new entries,
// at most pageMax.
func (t *tail) look(logs map[int64]*Log, slots chan struct{}, wg *sync.WaitGroup) (found int, err error) {
	ctx, cancel := t.s.limited(t.s.ctx)
	heads, err := t.s.heads(ctx, slices.Collect(maps.Values(logs))...)
	cancel()
	if errors.Is(err, engine.ErrNewEpoch) {
		return 0, nil // these logs have ended; their users open them again
	}
	if err != nil {
		return 0, err
	}
	var grown []*Log
	for _, l := range logs {
		h := heads[l]
		if l.Seen().Before(h.at) && l.known(h) || !l.begin() {
			continue
		}
		grown = append(grown, l)
		l.mu.Lock()
		if h.head > l.head {
			found = int(min(store.Position(found)+h.head-l.head, pageMax))
		}
		l.mu.Unlock()
	}
	ctx, cancel = t.s.limited(t.s.ctx)
	read, err := t.s.newest(ctx, grown, heads)
	cancel()
	if err != nil {
		for _, l := range grown {
			l.finish()
		}
		return 0, err
	}
	for i, l := range grown {
		select {
		case slots <- struct{}{}:
		case <-t.s.ctx.Done():
			for _, l := range grown[i:] {
				l.finish()
			}
			return found, nil
		}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := t.s.limited(t.s.ctx)
			defer cancel()
			if err := l.follow(ctx, heads[l], read[l]); err != nil && t.s.ctx.Err() == nil {
				t.s.options.Logger.Debug("mcp events: following a log failed", "log", l.name, "error", err)
			}
			if l.finish() {
				t.hear(" " + strconv.FormatInt(l.id, 36))
			}
		})
	}
	return found, nil
}

// known records a look that found nothing new. It returns false if there is something to follow.
func (l *Log) known(h head) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head < h.head || l.kept < h.kept || l.options.MaxAge != h.maxAge || l.options.MaxCount != h.maxCount {
		return false
	}
	l.seen = h.at
	return true
}

// begin reports whether the log can be followed now. If another goroutine is following it, finish will report that
// the log needs another look.
func (l *Log) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.following {
		l.again = true
		return false
	}
	l.following = true
	return true
}

func (l *Log) finish() (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = l.again
	l.following, l.again = false, false
	return again
}
