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
	waiting []chan struct{} // each channel is closed when its call can start
	inLine  bool
}

// Init sets the maximum number of concurrent calls in total and of each key. A limit that is not positive means no
// limit. Call Init before any other method.
func (s *Semaphore) Init(slots, perKey int) { s.slots, s.perKey = slots, perKey }

// Acquire waits until a call of the key can start. The caller must call release after the call. Acquire returns an error
// only if ctx is done.
func (s *Semaphore) Acquire(ctx context.Context, key string) (release func(), err error) {
	s.mu.Lock()
	q := s.queueOf(key)
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	s.enqueue(q)
	s.startWaiting()
	s.mu.Unlock()
	select {
	case <-turn:
		return func() { s.release(q) }, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		s.removeIdle(q)
	} else { // the call was admitted concurrently
		s.endCall(q)
	}
	return nil, ctx.Err()
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
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		s.running++
		q.running++
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
