package feed

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A feed is a check loop that is shared by all streams with the same event, arguments and principal (SRV-5). It stores
// the occurrences and their cursors in a private log. It runs as long as at least one stream uses it.
type feed struct {
	*upstream
	key   feedKey
	topic *topic.Topic
	log   store.EventLog // of topic
	gate  chan struct{}  // capacity 1: only one stream at a time determines its start
	kick  chan struct{}  // capacity 1: check now

	holders int // guarded by Feeds.mu

	mu       sync.Mutex
	live     bool
	stopped  bool
	cancel   context.CancelFunc
	base     string // cursor before the log's first entry
	head     string // cursor at headPos; advances even without new entries
	headPos  store.Position
	at       checkpoint // of head
	failures uint64     // checks that failed so far
	failure  error      // the last of them
	gaps     uint64     // number of times the upstream rejected the loop's cursor
}

type feedKey struct{ arguments, principal string }

// Limits of a feed's log, which is also limited to recent.Bytes. Readers fetch evicted entries from the upstream
// service.
const (
	Entries   = 1024
	feedSlots = 64
	// maxBackoff is the maximum delay after failed checks, unless the type's interval is longer.
	maxBackoff = time.Minute
)

// acquireFeed returns the feed of the upstream, creating it if necessary.
func (u *upstream) acquireFeed() *feed {
	key := feedKey{u.args.Key, u.principal}
	all := u.feeds
	all.mu.Lock()
	defer all.mu.Unlock()
	f := all.byKey[key]
	if f == nil || f.check != u.check {
		f = &feed{upstream: u, key: key, gate: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
		f.topic, _ = topic.Open(u.args.Of, topic.Options{
			Slots:    feedSlots,
			CursorOf: func(_ *topic.Type, e *store.Entry) []byte { return frame.AppendString(nil, e.Cursor) },
			Open: func(appended func([]store.Entry)) (store.EventLog, error) {
				f.log = memory.NewLog(store.LogOptions{MaxCount: Entries, MaxBytes: recent.Bytes, Appended: appended})
				return f.log, nil // which cannot fail
			},
		})
		if all.check == u.check {
			if all.byKey == nil {
				all.byKey = map[feedKey]*feed{}
			}
			all.byKey[key] = f // otherwise the type has changed: serve only this stream
		}
	}
	f.holders++
	return f
}

// release releases the feed. When the last holder releases the feed, the feed stops.
func (f *feed) release() {
	all := f.feeds
	all.mu.Lock()
	f.holders--
	last := f.holders == 0
	if last && all.byKey[f.key] == f {
		delete(all.byKey, f.key)
	}
	all.mu.Unlock()
	if last {
		f.stop()
	}
}

func (f *feed) stop() {
	f.mu.Lock()
	f.stopped = true
	cancel := f.cancel
	f.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// startLoop starts the loop at c. The parameter s is the step after c if that step has already been fetched, or nil.
func (f *feed) startLoop(c checkpoint, text string, s *step, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base, f.head, f.at = text, text, c
	f.live = true
	if f.stopped {
		return
	}
	done, ok := f.feeds.host.Begin()
	if !ok {
		return // the server is shutting down
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer done()
		if s != nil {
			f.appendStep(ctx, s)
		}
		f.runLoop(ctx, wait)
	}()
}

// runLoop calls the check periodically until ctx is done. The first call follows after the duration wait.
func (f *feed) runLoop(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	pause := f.check.Interval
	backoff := pause
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kick:
		case <-timer.C:
		}
		f.mu.Lock()
		at := f.at
		f.mu.Unlock()
		s, err := f.fetchStep(ctx, at)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.fail(err)
			timer.Reset(backoff)
			backoff = min(2*backoff, max(maxBackoff, pause))
			continue
		}
		backoff = pause
		f.appendStep(ctx, &s)
		next := s.nextPoll
		if next <= 0 {
			next = pause
		}
		if s.more {
			next = 0
		}
		timer.Reset(next)
	}
}

func (f *feed) fail(err error) {
	f.mu.Lock()
	f.failures++
	f.failure = err
	f.mu.Unlock()
	f.topic.SignalAll()
}

// appendStep appends the entries of a step and moves the head.
func (f *feed) appendStep(ctx context.Context, s *step) {
	if s.truncated {
		f.mu.Lock()
		f.gaps++
		f.mu.Unlock()
		f.topic.SignalAll()
	}
	for i := range s.entries {
		if _, err := f.topic.Append(ctx, s.entries[i], nil, false); err != nil {
			return // ctx is done: a memory log returns no other errors
		}
	}
	_, pos, _ := f.log.Bounds(ctx) // a memory log never fails
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head, f.headPos, f.at = f.cursorOf(s.next), pos, s.next
}

// cursorAt returns the cursor at a position in the feed's log. It returns false if the position has been evicted.
func (f *feed) cursorAt(pos store.Position) (string, bool) {
	f.mu.Lock()
	head, headPos, base := f.head, f.headPos, f.base
	f.mu.Unlock()
	switch {
	case pos == headPos:
		return head, true
	case pos == 0:
		return base, true
	}
	b, err := f.log.Read(context.Background(), pos-1, 1)
	if err != nil || b.Gap || len(b.Entries) == 0 {
		return "", false
	}
	return b.Entries[0].Cursor, true
}

// positionAfter returns the position in the feed's log that corresponds to a cursor.
func (f *feed) positionAfter(cursor string) (store.Position, bool) {
	f.mu.Lock()
	head, headPos, base, live := f.head, f.headPos, f.base, f.live
	f.mu.Unlock()
	if !live {
		return 0, false
	}
	if cursor == head {
		return headPos, true
	}
	oldest, _, _ := f.log.Bounds(context.Background()) // a memory log never fails
	if cursor == base && oldest == 1 {
		return 0, true
	}
	return f.scan(func(e *store.Entry) bool { return e.Cursor == cursor })
}

// positionOf returns the position of the entry with the given eventId in the feed's log.
func (f *feed) positionOf(eventID string) (store.Position, bool) {
	return f.scan(func(e *store.Entry) bool { return e.EventID == eventID })
}

func (f *feed) scan(is func(*store.Entry) bool) (store.Position, bool) {
	oldest, _, _ := f.log.Bounds(context.Background()) // a memory log never fails
	b, err := f.log.Read(context.Background(), oldest-1, Entries)
	if err != nil {
		return 0, false
	}
	for i := len(b.Entries) - 1; i >= 0; i-- {
		if is(&b.Entries[i]) {
			return b.Entries[i].Position, true
		}
	}
	return 0, false
}

// counters returns the number of failures, the number of gaps, and the last failure of the loop. Readers compare the
// numbers with the numbers that they last reported.
func (f *feed) counters() (failures, gaps uint64, failure error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures, f.gaps, f.failure
}

// checkNow wakes the loop.
func (f *feed) checkNow() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}
