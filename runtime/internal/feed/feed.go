package feed

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fairsem"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A feed calls the check for all sources with the same event, arguments and principal (SRV-5). Sources at the same
// position, such as all that have reached the upstream's head, share one call per interval. A feed exists as long as at
// least one source uses it. Feeds.mu guards its fields.
type feed struct {
	*upstream
	key     feedKey
	holders int
	stopped bool                 // it makes no more calls
	pending map[checkpoint]*call // calls that have not returned, by their position
	results map[checkpoint]*call // results that other sources can use
	started int                  // number of calls that have been started
	backoff time.Duration        // after failed calls, else 0
	retry   time.Time            // of the next call after a failed one
	head    head
}

type feedKey struct{ arguments, principal string }

// A head is the latest known head of an upstream. Its cursor is "" if the head is unknown.
type head struct {
	at     checkpoint
	cursor string
	number int       // of the call that returned it
	due    time.Time // of the next call
}

// A call is a call of the check at a position. It is scheduled, then it runs, and then it contains the result. A call
// that finds nothing new runs again after the interval.
type call struct {
	at      checkpoint
	waiting map[topic.Bell]string // bells to ring when the call returns, with their principals; nil after it has returned
	awaited bool                  // somebody waits even for the result that there is nothing new
	slot    *fairsem.Call         // of those principals; nil before the call runs
	run     func()
	timer   *time.Timer // starts run; nil once the call runs
	cancel  context.CancelFunc
	number  int // in the order of the starts
	step    step
	err     error
	size    int       // of the result, in bytes
	until   time.Time // of the next call at the upstream's head
}

// Limits of the results that a feed keeps.
const (
	maxResults     = 16
	maxResultBytes = 1 << 20
	resultOverhead = 256
	// maxBackoff is the maximum delay after failed checks, unless the type's interval is longer.
	maxBackoff = time.Minute
)

// errCanceled is the error of a call after the feed has been stopped or the server has shut down.
var errCanceled = errors.New("the call of the check was canceled")

// acquireFeed returns the feed of the upstream, creating it if necessary.
func (u *upstream) acquireFeed() *feed {
	key := feedKey{u.args.Key, u.principal}
	all := u.feeds
	all.mu.Lock()
	defer all.mu.Unlock()
	f := all.byKey[key]
	if f == nil || f.check != u.check {
		f = &feed{upstream: u, key: key, pending: map[checkpoint]*call{}, results: map[checkpoint]*call{}}
		if all.check == u.check {
			if all.byKey == nil {
				all.byKey = map[feedKey]*feed{}
			}
			all.byKey[key] = f // otherwise the type has changed: serve only this source
		}
	}
	f.holders++
	return f
}

// release releases the feed. When the last holder releases the feed, the feed stops.
func (f *feed) release() {
	all := f.feeds
	all.mu.Lock()
	defer all.mu.Unlock()
	if f.holders--; f.holders > 0 {
		return
	}
	if all.byKey[f.key] == f {
		delete(all.byKey, f.key)
	}
	f.stop()
}

// stop ends the calls that have not returned. Feeds.mu must be held.
func (f *feed) stop() {
	f.stopped = true
	for _, c := range f.pending {
		c.end()
	}
	clear(f.pending) // nobody joins a call that has ended
}

// call returns the call at a position and reports whether it has returned. If it has not, its return rings the bell. If
// no result is known, call schedules a call: immediately if now is set or the upstream probably has more, else after the
// interval. It returns nil if the feed has been stopped.
func (f *feed) call(at checkpoint, s Seat, now bool) (c *call, returned bool) {
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	if c = f.pending[at]; c != nil {
		c.waiting[s.Bell] = s.Principal
		if c.slot != nil {
			c.slot.Join(s.Principal)
		}
		if now {
			c.awaited = true
			c.runNow()
		}
		return c, false
	}
	if c = f.results[at]; c != nil && c.isValid(time.Now()) {
		return c, true
	}
	if f.stopped {
		return nil, false
	}
	c = &call{at: at, waiting: map[topic.Bell]string{s.Bell: s.Principal}, awaited: now}
	f.pending[at] = c
	due := f.retry
	if f.isHead(at) && due.Before(f.head.due) {
		due = f.head.due
	}
	if now {
		due = time.Time{}
	}
	f.schedule(c, time.Until(due))
	return c, false
}

// schedule schedules a pending call. Feeds.mu must be held.
func (f *feed) schedule(c *call, wait time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.slot = cancel, nil
	c.run = func() { f.run(ctx, c) }
	if wait > 0 {
		c.timer = time.AfterFunc(wait, c.run)
	} else {
		go c.run()
	}
}

// runNow starts a call that is scheduled for later. Feeds.mu must be held.
func (c *call) runNow() {
	if c.timer != nil && c.timer.Stop() {
		c.timer = nil
		go c.run()
	}
}

// end cancels a call that has not returned.
func (c *call) end() {
	c.cancel()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// run calls the check.
func (f *feed) run(ctx context.Context, c *call) {
	done, ok := f.feeds.host.Begin()
	if !ok {
		f.finish(c, step{}, errCanceled)
		return
	}
	defer done()
	f.feeds.mu.Lock()
	f.started++
	c.number, c.timer = f.started, nil
	c.slot = f.feeds.calls.NewCall()
	for _, principal := range c.waiting {
		if !c.slot.Join(principal) {
			break
		}
	}
	f.feeds.mu.Unlock()
	s, err := f.fetchStep(ctx, c.at, c.slot)
	if ctx.Err() != nil {
		s, err = step{}, errCanceled
	}
	f.finish(c, s, err)
}

// finish stores the result of a call and rings the bells of those who wait for it.
func (f *feed) finish(c *call, s step, err error) {
	size := resultOverhead
	for i := range s.entries {
		e := &s.entries[i]
		size += recent.Size(&e.Entry)
		e.rec = topic.NewRecord(f.args.Of, e.Entry, frame.AppendString(nil, e.Cursor))
	}
	for bell := range f.record(c, s, err, size) {
		bell.Ring()
	}
}

// record stores the result of a call. It returns the bells to ring, or nil if there is nothing new.
func (f *feed) record(c *call, s step, err error, size int) map[topic.Bell]string {
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	c.cancel()
	now, wait := time.Now(), f.check.Interval
	if s.nextPoll > 0 {
		wait = s.nextPoll
	}
	switch {
	case errors.Is(err, errCanceled):
	case err != nil && now.Before(f.retry): // another call has failed at the same time
	case err != nil:
		f.backoff = min(max(2*f.backoff, f.check.Interval), max(maxBackoff, f.check.Interval))
		f.retry = now.Add(f.backoff)
	default:
		f.backoff, f.retry = 0, time.Time{}
		c.until = now.Add(wait)
		if !s.more && f.head.number <= c.number {
			f.head = head{s.next, s.cursor, c.number, c.until}
		}
	}
	if err == nil && s.next == c.at && !c.awaited && len(c.waiting) > 0 && !f.stopped {
		f.schedule(c, wait)
		return nil
	}
	c.step, c.err, c.size = s, err, size
	waiting := c.waiting
	c.waiting = nil
	if f.pending[c.at] == c {
		delete(f.pending, c.at)
	}
	if err == nil && s.next != c.at {
		f.results[c.at] = c
		f.evict(now)
	}
	return waiting
}

// isValid reports whether a source at the position of a call can use its result. A result with entries stays valid,
// because a later call finds the same entries first. A gap and the absence of entries expire.
func (c *call) isValid(now time.Time) bool {
	return len(c.step.entries) > 0 && !c.step.truncated || now.Before(c.until)
}

// evict removes the results that have expired, and the oldest ones if the feed keeps too many. Feeds.mu must be held.
func (f *feed) evict(now time.Time) {
	for {
		var oldest *call
		bytes := 0
		for at, c := range f.results {
			if !c.isValid(now) {
				delete(f.results, at)
				continue
			}
			if bytes += c.size; oldest == nil || c.number < oldest.number {
				oldest = c
			}
		}
		if len(f.results) <= maxResults && bytes <= maxResultBytes {
			return
		}
		delete(f.results, oldest.at)
	}
}

// hasReturned reports whether a call has returned.
func (f *feed) hasReturned(c *call) bool {
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	return c.waiting == nil
}

// leave stops waiting for a call. It cancels a call that nobody else waits for.
func (f *feed) leave(c *call, bell topic.Bell) {
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	if delete(c.waiting, bell); len(c.waiting) > 0 || f.pending[c.at] != c {
		return
	}
	delete(f.pending, c.at)
	c.end()
}

// awaitFor returns a fetch that awaits the result for a principal.
func (f *feed) awaitFor(principal string) fetch {
	return func(ctx context.Context, at checkpoint) (step, error) { return f.await(ctx, at, principal) }
}

// await returns the result of the check at a position. Concurrent callers share one call.
func (f *feed) await(ctx context.Context, at checkpoint, principal string) (step, error) {
	f.feeds.mu.Lock()
	isHead, h := f.isHead(at), f.head
	f.feeds.mu.Unlock()
	if isHead {
		return step{next: h.at, cursor: h.cursor}, nil
	}
	bell := topic.NewWake()
	c, returned := f.call(at, Seat{Principal: principal, Bell: bell}, true)
	if c == nil {
		return f.fetchFor(principal)(ctx, at)
	}
	if !returned {
		select {
		case <-bell:
		case <-ctx.Done():
			f.leave(c, bell)
			return step{}, ctx.Err()
		}
	}
	if errors.Is(c.err, errCanceled) { // the type has changed
		return f.fetchFor(principal)(ctx, at)
	}
	s := c.step
	s.more = s.more || c.err == nil && !time.Now().Before(c.until) // the head has probably moved since
	return s, c.err
}

// current returns the upstream's head and its cursor. If the feed does not know the head of the last two intervals,
// current calls the check.
func (f *feed) current(ctx context.Context, principal string) (at checkpoint, cursor string, err error) {
	f.feeds.mu.Lock()
	h := f.head
	f.feeds.mu.Unlock()
	if h.cursor != "" && time.Now().Before(h.due.Add(f.check.Interval)) {
		return h.at, h.cursor, nil
	}
	s, err := f.await(ctx, checkpoint{}, principal)
	return s.next, s.cursor, err
}

// isHead reports whether a position is the latest known head. Feeds.mu must be held.
func (f *feed) isHead(at checkpoint) bool { return f.head.cursor != "" && f.head.at == at }
