// Package fairsem limits concurrent calls and divides the slots among keys, such as principals. Keys whose calls hang
// leave slots to the others.
//
// Each key has one basic call, which can use any free slot. Its further calls start only while fewer than half of the
// slots are used. Keys with waiting calls take turns, and the calls of a key start in order of arrival.
package fairsem

import (
	"context"
	"slices"
	"sync"
)

// A Semaphore limits concurrent calls. The zero value has no limits.
type Semaphore struct {
	slots, perKey int // 0 or less: no limit

	mu      sync.Mutex
	running int
	queues  map[string]*queue
	line    []*queue // queues with a call that only waits for room; fewer than slots of them cannot use a free slot
}

// A queue holds the calls of one key.
type queue struct {
	key     string
	running int
	waiting []*Call
	inLine  bool
}

// A Call waits for a slot. It can wait for several keys, for example if several principals need its result, and uses the
// slot of the first key that gets one.
type Call struct {
	s       *Semaphore
	start   chan struct{}       // closed when the call can start
	queues  map[*queue]struct{} // of its keys; nil once it can start or has been canceled
	granted *queue              // of the key whose slot it uses
}

// Init sets the maximum number of concurrent calls in total and of each key. A limit that is not positive means no
// limit. Call Init before any other method.
func (s *Semaphore) Init(slots, perKey int) { s.slots, s.perKey = slots, perKey }

// NewCall returns a call without a key. The caller must call [Call.Wait].
func (s *Semaphore) NewCall() *Call {
	return &Call{s: s, start: make(chan struct{}), queues: map[*queue]struct{}{}}
}

// Acquire waits until a call of the key can start, like [Call.Wait].
func (s *Semaphore) Acquire(ctx context.Context, key string) (release func(), err error) {
	c := s.NewCall()
	c.Join(key)
	return c.Wait(ctx)
}

// Join adds a key to a call that waits, and reports whether the call still waits.
func (c *Call) Join(key string) (waits bool) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.queues == nil {
		return false
	}
	q := s.queueOf(key)
	if _, ok := c.queues[q]; !ok {
		c.queues[q] = struct{}{}
		q.waiting = append(q.waiting, c)
		s.enqueue(q)
		s.startWaiting()
	}
	return c.queues != nil
}

// Wait waits until the call can start. The caller must call release after the call. Wait returns an error only if ctx is
// done. It must be called once.
func (c *Call) Wait(ctx context.Context) (release func(), err error) {
	s := c.s
	if ctx.Err() == nil {
		select {
		case <-c.start:
			return func() { s.release(c.granted) }, nil
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.granted != nil { // the call was admitted concurrently
		s.endCall(c.granted)
	}
	c.leave()
	return nil, ctx.Err()
}

// leave removes the call from its queues. s.mu must be held.
func (c *Call) leave() {
	for q := range c.queues {
		i := slices.Index(q.waiting, c)
		q.waiting = slices.Delete(q.waiting, i, i+1)
		c.s.removeIdle(q)
	}
	c.queues = nil
}

// TryAcquire is like Acquire, but returns false if it would have to wait.
func (s *Semaphore) TryAcquire(key string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueOf(key)
	defer s.removeIdle(q)
	if len(q.waiting) > 0 || !s.hasSlot() || !s.isAllowed(q) || !s.hasRoom(q) {
		return nil, false
	}
	s.running++
	q.running++
	return func() { s.release(q) }, true
}

// queueOf returns the queue of a key. s.mu must be held.
func (s *Semaphore) queueOf(key string) *queue {
	q := s.queues[key]
	if q == nil {
		if s.queues == nil {
			s.queues = map[string]*queue{}
		}
		q = &queue{key: key}
		s.queues[key] = q
	}
	return q
}

func (s *Semaphore) release(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endCall(q)
}

// endCall frees the slot of a call. s.mu must be held.
func (s *Semaphore) endCall(q *queue) {
	s.running--
	q.running--
	s.enqueue(q)
	s.startWaiting()
	s.removeIdle(q)
}

// enqueue adds a queue to the line if it has a call that only waits for room. s.mu must be held.
func (s *Semaphore) enqueue(q *queue) {
	if !q.inLine && len(q.waiting) > 0 && s.isAllowed(q) {
		q.inLine = true
		s.line = append(s.line, q)
	}
}

// startWaiting starts waiting calls while there is room. s.mu must be held.
func (s *Semaphore) startWaiting() {
	for s.hasSlot() {
		i := slices.IndexFunc(s.line, s.hasRoom)
		if i < 0 {
			return
		}
		q := s.line[i]
		s.removeFromLine(i)
		s.running++
		q.running++
		c := q.waiting[0]
		c.granted = q
		close(c.start)
		c.leave()
		s.enqueue(q)
	}
}

// removeFromLine removes the queue at i, which is near the front. s.mu must be held.
func (s *Semaphore) removeFromLine(i int) {
	s.line[i].inLine = false
	copy(s.line[1:], s.line[:i])
	s.line[0] = nil
	s.line = s.line[1:]
}

// hasSlot reports whether a slot is free.
func (s *Semaphore) hasSlot() bool { return s.slots <= 0 || s.running < s.slots }

// isAllowed reports whether the key can have another call.
func (s *Semaphore) isAllowed(q *queue) bool { return s.perKey <= 0 || q.running < s.perKey }

// hasRoom reports whether the key can use a free slot.
func (s *Semaphore) hasRoom(q *queue) bool {
	return q.running == 0 || s.slots <= 0 || 2*s.running < s.slots
}

// removeIdle removes a queue without waiting calls from the line, and deletes it if it has no calls. s.mu must be held.
func (s *Semaphore) removeIdle(q *queue) {
	if len(q.waiting) > 0 {
		return
	}
	if q.inLine {
		s.removeFromLine(slices.Index(s.line, q))
	}
	if q.running == 0 {
		delete(s.queues, q.key)
	}
}
