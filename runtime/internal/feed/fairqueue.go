package feed

import (
	"context"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// Bounds limits the calls to the check of one event type. A value that is not positive means no limit.
type Bounds struct {
	// Calls is the maximum number of concurrent calls. CallsEach is the maximum number of concurrent calls per
	// principal. Of a principal with a running call, further calls start only while fewer than half of Calls run.
	Calls, CallsEach int
	// Checks is the maximum number of distinct arguments that the readers of one principal can use. All callers without
	// a principal share a limit that is anonymousFactor times as high.
	Checks int
}

// anonymousFactor multiplies the limit that all callers without a principal share.
const anonymousFactor = 16

// A callLimiter limits concurrent calls. Principals with waiting calls take turns. The calls of each principal run in
// order of arrival. A principal has one basic call, which starts while there is room at all. Its further calls start
// only while less than half of the room is used, so several principals whose checks hang leave the rest to the others.
type callLimiter struct {
	calls, each int // 0 or less: no limit

	mu      sync.Mutex
	running int
	by      map[string]*queue
	line    []*queue // queues with a call that only waits for room; fewer than calls of them cannot use a free slot
}

// A queue holds the calls of one principal.
type queue struct {
	running int
	waiting []chan struct{} // each channel is closed when its call can start
	inLine  bool
}

// acquireSlot waits until the principal can start a call. The caller must call done after the call. acquire returns an
// error only if ctx is done.
func (t *callLimiter) acquireSlot(ctx context.Context, principal string) (done func(), err error) {
	t.mu.Lock()
	q := t.by[principal]
	if q == nil {
		if t.by == nil {
			t.by = map[string]*queue{}
		}
		q = &queue{}
		t.by[principal] = q
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	t.enqueue(q)
	t.startWaiting()
	t.mu.Unlock()
	done = func() { t.freeSlot(principal, q) }
	select {
	case <-turn:
		return done, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		t.removeIdle(principal, q)
	}
	t.mu.Unlock()
	if i < 0 { // the call was admitted concurrently
		done()
	}
	return nil, ctx.Err()
}

// freeSlot frees the slot of a finished call.
func (t *callLimiter) freeSlot(principal string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	q.running--
	t.enqueue(q)
	t.startWaiting()
	t.removeIdle(principal, q)
}

// enqueue adds a principal to the line if it has a call that only waits for room. t.mu must be held.
func (t *callLimiter) enqueue(q *queue) {
	if !q.inLine && len(q.waiting) > 0 && (t.each <= 0 || q.running < t.each) {
		q.inLine = true
		t.line = append(t.line, q)
	}
}

// hasRoom reports whether the principal can use a free slot. t.mu must be held.
func (t *callLimiter) hasRoom(q *queue) bool {
	return q.running == 0 || t.calls <= 0 || t.running < t.calls/2
}

// startWaiting starts waiting calls while there is room. t.mu must be held.
func (t *callLimiter) startWaiting() {
	for t.calls <= 0 || t.running < t.calls {
		i := slices.IndexFunc(t.line, t.hasRoom)
		if i < 0 {
			return
		}
		q := t.line[i]
		copy(t.line[1:], t.line[:i]) // i is less than t.calls
		t.line = t.line[1:]
		q.inLine = false
		if len(q.waiting) == 0 {
			continue // its caller has canceled
		}
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		t.running++
		q.running++
		t.enqueue(q)
	}
}

// removeIdle deletes a principal that has no calls. t.mu must be held.
func (t *callLimiter) removeIdle(principal string, q *queue) {
	if q.running == 0 && len(q.waiting) == 0 && t.by[principal] == q {
		delete(t.by, principal)
	}
}

// addReader counts a reader of the arguments for the principal until release is called. It returns an error if the
// principal would exceed its limit of distinct arguments, unless the subscription has already been accepted.
func (f *Feeds) addReader(principal string, a *topic.Arguments, accepted bool) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkLimit(principal, a); err != nil && !accepted {
		return nil, err
	}
	used := f.used[principal]
	if used == nil {
		if f.used == nil {
			f.used = map[string]map[string]int{}
		}
		used = map[string]int{}
		f.used[principal] = used
	}
	used[a.Key]++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if used[a.Key]--; used[a.Key] == 0 {
			delete(used, a.Key)
		}
		if len(used) == 0 {
			delete(f.used, principal)
		}
	}), nil
}

// checkLimit returns an error if a is new to the principal and the principal has reached its limit of distinct
// arguments. f.mu must be held.
func (f *Feeds) checkLimit(principal string, a *topic.Arguments) error {
	limit, used := f.checks, f.used[principal]
	if principal == "" {
		limit *= anonymousFactor
	}
	if limit <= 0 || used[a.Key] > 0 || len(used) < limit {
		return nil
	}
	return fault.Exhausted("checks", limit)
}
