package delivery

import (
	"container/heap"
	"math"
	"time"
)

// An instant is a time in Unix nanoseconds, where 0 means no time. It uses less memory than time.Time, because each
// subscription has many instants.
type instant int64

// instantOf returns the instant of t. Times after the year 2262, such as the expiry of a token, become the last instant.
func instantOf(t time.Time) instant {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}

// A moment is a time on the engine's monotonic clock, in nanoseconds since the creation of the engine. A moment of 0
// means no time. The engine uses moments for scheduling, so setting the wall clock back does not delay deliveries.
type moment int64

func (m moment) plus(d time.Duration) moment { return m + moment(d) }

// clock returns the current moment.
func (e *Engine) clock() moment { return moment(time.Since(e.born)) + 1 }

// momentOf converts a wall-clock time to a moment, given the current wall-clock time.
func (e *Engine) momentOf(t, now time.Time) moment {
	return max(1, e.clock().plus(t.Sub(now)))
}

// timeOf converts a moment to a wall-clock time.
func (e *Engine) timeOf(m moment) time.Time {
	return e.now().Add(time.Duration(m - e.clock()))
}

// A handleHeap is a heap of handles, ordered by the time of their next work.
type handleHeap []*Handle

func (q handleHeap) Len() int           { return len(q) }
func (q handleHeap) Less(i, j int) bool { return q[i].wakeAt < q[j].wakeAt }

func (q handleHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = int32(i), int32(j)
}

func (q *handleHeap) Push(x any) {
	h := x.(*Handle)
	h.slot = int32(len(*q))
	*q = append(*q, h)
}

func (q *handleHeap) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	h.slot = -1
	return h
}

// A timerQueue schedules the handles that are waiting for a point in time. It uses a single timer. The engine's lock
// guards it.
type timerQueue struct {
	queue handleHeap
	timer *time.Timer
	armed moment // time of the timer; 0 if it is not set
	fire  func()
	now   func() moment
}

// schedule schedules h at the given moment. If the moment is 0, it removes h.
func (t *timerQueue) schedule(h *Handle, at moment) {
	switch {
	case at == 0:
		t.remove(h)
		return
	case h.slot < 0:
		h.wakeAt = at
		heap.Push(&t.queue, h)
	case at != h.wakeAt:
		h.wakeAt = at
		heap.Fix(&t.queue, int(h.slot))
	}
	t.resetTimer()
}

func (t *timerQueue) remove(h *Handle) {
	if h.slot >= 0 {
		heap.Remove(&t.queue, int(h.slot))
	}
}

// popDue removes and returns the first due handle, or returns nil if no handle is due.
func (t *timerQueue) popDue(now moment) *Handle {
	if len(t.queue) == 0 || t.queue[0].wakeAt > now {
		return nil
	}
	h := t.queue[0]
	t.remove(h)
	return h
}

// resetTimer sets the timer for the first handle. An early timer is harmless, so the timer is not reset when the first
// handle is removed.
func (t *timerQueue) resetTimer() {
	if len(t.queue) == 0 {
		return
	}
	at := t.queue[0].wakeAt
	if t.armed != 0 && t.armed <= at {
		return
	}
	t.armed = at
	switch wait := time.Duration(at - t.now()); {
	case wait <= 0:
		go t.fire()
	case t.timer == nil:
		t.timer = time.AfterFunc(wait, t.fire)
	default:
		t.timer.Reset(wait)
	}
}

func (t *timerQueue) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
