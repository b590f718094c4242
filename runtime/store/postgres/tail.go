package postgres

import (
	"context"
	"crypto/rand"
	"errors"
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
	// notifyInterval is the minimum time between two notifications of a replica. All appends in that time share a
	// notification. Each one costs a transaction and wakes a connection of every replica.
	notifyInterval = 10 * time.Millisecond
	// maxNotifyLogs is the maximum number of logs in a notification. If there are more, the notification contains
	// allLogs.
	maxNotifyLogs = 300
	// minPollInterval is the minimum time between two polls caused by notifications. A poll costs about the same for
	// one entry as for many, so each entry found by a poll adds pollPerEntry to that time, up to maxPollInterval.
	minPollInterval = 5 * time.Millisecond
	pollPerEntry    = 100 * time.Microsecond
	maxPollInterval = 25 * time.Millisecond
	// selfTestTimeout is how long a replica waits for the first notification that it sends to itself.
	selfTestTimeout = 3 * time.Second
	// maxFollowers is the maximum number of logs that are followed concurrently.
	maxFollowers = 4
)

// allLogs represents all logs in a notification.
const allLogs = "*"

// A tail follows the appends of other replicas, and notifies them of this replica's appends.
type tail struct {
	s    *Store
	name string // of this replica in notifications

	mu      sync.Mutex
	marked  map[int64]bool // logs with appends of this process not yet announced
	sending bool           // a notification is in progress
	wanted  map[int64]bool // logs to poll
	all     bool           // poll all logs
	changed chan struct{}  // capacity 1: marked is not empty
	wake    chan struct{}  // capacity 1: wanted is not empty

	warnOnce sync.Once // about an ineffective LISTEN
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

// markAppended records that this process has appended to a log.
func (t *tail) markAppended(id int64) {
	t.mu.Lock()
	t.marked[id] = true
	t.mu.Unlock()
	signal(t.changed)
}

// notify notifies other replicas. NOTIFY locks the whole database at commit, so notify uses a separate transaction that
// appends do not wait for. If a notification is lost, the other replicas find the entries at their next poll.
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
		text := allLogs
		if len(ids) <= maxNotifyLogs {
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
		if !t.s.pause(notifyInterval) {
			return
		}
	}
}

// pause waits for d. It returns false if the store is closed before then.
func (s *Store) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// handleNotification schedules polls for the logs in a notification.
func (t *tail) handleNotification(text string) {
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
	t.handleNotification(" " + allLogs) // earlier notifications were lost
	heard := t.notifySelf()
	defer heard()
	for {
		n, err := conn.WaitForNotification(t.s.ctx)
		if err != nil {
			return err
		}
		heard()
		t.handleNotification(n.Payload)
	}
}

// notifySelf notifies this replica, to check that LISTEN is effective. It logs a warning if heard is not called within
// selfTestTimeout. Other replicas ignore the notification, because log 0 does not exist.
func (t *tail) notifySelf() (heard func()) {
	ctx, cancel := context.WithTimeout(t.s.ctx, 5*time.Second)
	defer cancel()
	if _, err := t.s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", t.s.channel, t.name+" 0"); err != nil {
		return func() {} // no notification was sent
	}
	timer := time.AfterFunc(selfTestTimeout, t.warnNoNotifications)
	return func() { timer.Stop() }
}

// warnNoNotifications logs a single warning that LISTEN has no effect. A pooler in transaction mode accepts LISTEN but
// drops the notifications.
func (t *tail) warnNoNotifications() {
	t.warnOnce.Do(func() {
		t.s.options.Logger.Warn("mcp events: LISTEN receives no notifications, so this process sees appends of other processes only every "+t.s.options.Poll.String()+
			": the connection may lead through a pooler in transaction mode, or to another database; set postgres.Options.Listen to a "+
			"connection string that leads to the server itself, and Pooled", "waited", selfTestTimeout)
	})
}

// run polls for appends of other processes. It polls the affected logs immediately after a notification, and all logs
// every Poll interval.
func (t *tail) run() {
	ticker := time.NewTicker(t.s.options.Poll)
	defer ticker.Stop()
	slots := make(chan struct{}, maxFollowers)
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
		logs, left := t.takeLogs(all)
		found, err := t.poll(logs, slots, &wg)
		if t.s.ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			t.s.options.Logger.Warn("mcp events: reading other replicas' appends failed", "error", err)
		}
		failing = err != nil
		if !t.s.pause(min(minPollInterval+time.Duration(found)*pollPerEntry, maxPollInterval)) {
			return
		}
		if left {
			signal(t.wake)
		}
	}
}

// takeLogs returns the open logs to poll, which are those in notifications, or all if all is set. A log to which this
// process has just appended stays wanted, because the next append will read the entries of other processes.
func (t *tail) takeLogs(all bool) (logs []*Log, left bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted := t.wanted
	all = all || t.all
	t.wanted, t.all = map[int64]bool{}, false
	for _, l := range t.s.logs {
		if !all && wanted[l.id] && l.justAppended() {
			t.wanted[l.id], left = true, true
		} else if all || wanted[l.id] {
			logs = append(logs, l)
		}
	}
	return logs, left
}

// justAppended reports whether this process has committed an append to the log within maxPollInterval.
func (l *Log) justAppended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.appended) < maxPollInterval
}

// poll reads the heads of logs in one query and follows the logs that have grown. It returns the number of new entries,
// but at most maxPage.
func (t *tail) poll(logs []*Log, slots chan struct{}, wg *sync.WaitGroup) (found int, err error) {
	if len(logs) == 0 {
		return 0, nil
	}
	ctx, cancel := t.s.withTimeout(t.s.ctx)
	heads, err := t.s.readHeads(ctx, logs...)
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
		if l.Seen().Before(h.at) && l.recordUnchanged(h) || !l.beginFollowing() {
			continue
		}
		grown = append(grown, l)
		l.mu.Lock()
		if h.head > l.head {
			found = int(min(store.Position(found)+h.head-l.head, maxPage))
		}
		l.mu.Unlock()
	}
	ctx, cancel = t.s.withTimeout(t.s.ctx)
	read, err := t.s.readNewest(ctx, grown, heads)
	cancel()
	if err != nil {
		for _, l := range grown {
			l.finishFollowing()
		}
		return 0, err
	}
	for i, l := range grown {
		select {
		case slots <- struct{}{}:
		case <-t.s.ctx.Done():
			for _, l := range grown[i:] {
				l.finishFollowing()
			}
			return found, nil
		}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := t.s.withTimeout(t.s.ctx)
			defer cancel()
			if err := l.follow(ctx, heads[l], read[l]); err != nil && t.s.ctx.Err() == nil {
				t.s.options.Logger.Debug("mcp events: following a log failed", "log", l.name, "error", err)
			}
			if l.finishFollowing() {
				t.handleNotification(" " + strconv.FormatInt(l.id, 36))
			}
		})
	}
	return found, nil
}

// recordUnchanged records a poll that found no changes to the log. It returns false if the log has changed.
func (l *Log) recordUnchanged(h head) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head < h.head || l.kept < h.kept || l.options.MaxAge != h.maxAge || l.options.MaxCount != h.maxCount {
		return false
	}
	l.seen = h.at
	return true
}

// beginFollowing reports whether the log can be followed now. If another goroutine is following the log,
// finishFollowing reports that the log needs another poll.
func (l *Log) beginFollowing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.following {
		l.again = true
		return false
	}
	l.following = true
	return true
}

func (l *Log) finishFollowing() (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = l.again
	l.following, l.again = false, false
	return again
}
