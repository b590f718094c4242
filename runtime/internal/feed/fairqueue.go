package feed

import (
	"context"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// Bounds limits the calls of one event type's check; 0 or less means no bound.
type Bounds struct {
	// Calls is the number of concurrent calls, CallsEach the number of them per principal.
	Calls, CallsEach int
	// Checks is the number of distinct arguments of one principal's readers. All callers without a principal share
	// nobodysShare times as many.
	Checks int
}

// nobodysShare is the factor by which the bound for all callers without a principal is larger.
const nobodysShare = 16

// turns bounds the concurrent calls. Principals with waiting calls take turns; the calls of one principal run in
// order of arrival.
type turns struct {
	calls, each int // 0 or less: no bound

	mu      sync.Mutex
	running int
	by      map[string]*queue
	line    []*queue // queues with a call that only waits for a free slot
}

// A queue holds the calls of one principal.
type queue struct {
	running int
	waiting []chan struct{} // each closed when its call may run
	inLine  bool
}

// take waits for a turn of the principal. done ends the turn. The error is the error of ctx.
func (t *turns) take(ctx context.Context, principal string) (done func(), err error) {
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
	t.admit()
	t.mu.Unlock()
	done = func() { t.end(principal, q) }
	select {
	case <-turn:
		return done, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		t.forget(principal, q)
	}
	t.mu.Unlock()
	if i < 0 { // its turn came concurrently
		done()
	}
	return nil, ctx.Err()
}

// end ends a turn.
func (t *turns) end(principal string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	q.running--
	t.enqueue(q)
	t.admit()
	t.forget(principal, q)
}

// enqueue puts a principal in line if it has a call that only waits for a free slot. t.mu must be held.
func (t *turns) enqueue(q *queue) {
	if !q.inLine && len(q.waiting) > 0 && (t.each <= 0 || q.running < t.each) {
		q.inLine = true
		t.line = append(t.line, q)
	}
}

// admit starts calls while slots are free. t.mu must be held.
func (t *turns) admit() {
	for len(t.line) > 0 && (t.calls <= 0 || t.running < t.calls) {
		q := t.line[0]
		t.line = t.line[1:]
		q.inLine = false
		if len(q.waiting) == 0 {
			continue // its caller has gone
		}
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		t.running++
		q.running++
		t.enqueue(q)
	}
}

// forget drops a principal without calls. t.mu must be held.
func (t *turns) forget(principal string, q *queue) {
	if q.running == 0 && len(q.waiting) == 0 && t.by[principal] == q {
		delete(t.by, principal)
	}
}

// use counts a reader of the arguments for the principal until release is called. It returns an error above the
// bound of distinct arguments, unless the subscription was accepted before.
func (f *Feeds) use(principal string, a *topic.Arguments, accepted bool) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.full(principal, a); err != nil && !accepted {
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

// full returns an error for arguments that the principal does not read, if it has reached the bound. f.mu must be
// held.
func (f *Feeds) full(principal string, a *topic.Arguments) error {
	limit, used := f.checks, f.used[principal]
	if principal == "" {
		limit *= nobodysShare
	}
	if limit <= 0 || used[a.Key] > 0 || len(used) < limit {
		return nil
	}
	return fault.Exhausted("checks", limit)
}
