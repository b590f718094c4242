package delivery

import "time"

// An instant is a time in eight bytes, Unix nanoseconds; 0 is no time. A subscription has many.
type instant int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}

// timers is a heap of handles by the time at which there is something to do for them, with one
// timer for all. The engine's lock guards it.
type timers struct {
	heap  []*Handle
	timer *time.Timer
	armed instant // what timer is set to, 0 for nothing
	fire  func()
	now   func() time.Time
}

// set moves h to at; 0 takes it out.
func (t *timers) set(h *Handle, at instant) {
	switch {
	case at == 0:
		t.remove(h)
		return
	case h.slot < 0:
		h.slot, h.wakeAt = len(t.heap), at
		t.heap = append(t.heap, h)
		t.up(h.slot)
	case at != h.wakeAt:
		h.wakeAt = at
		t.up(h.slot)
		t.down(h.slot)
	}
	t.arm()
}

func (t *timers) remove(h *Handle) {
	i := h.slot
	if i < 0 {
		return
	}
	last := len(t.heap) - 1
	t.swap(i, last)
	t.heap[last] = nil
	t.heap = t.heap[:last]
	h.slot = -1
	if i < last {
		t.up(i)
		t.down(i)
	}
}

// due takes out and returns a handle whose time has come, or nil.
func (t *timers) due(now instant) *Handle {
	if len(t.heap) == 0 || t.heap[0].wakeAt > now {
		return nil
	}
	h := t.heap[0]
	t.remove(h)
	return h
}

// arm sets the timer for the first handle. A timer that fires too early is harmless, so that it is
// not set back when the first handle is taken out.
func (t *timers) arm() {
	if len(t.heap) == 0 {
		return
	}
	at := t.heap[0].wakeAt
	if t.armed != 0 && t.armed <= at {
		return
	}
	t.armed = at
	wait := at.time().Sub(t.now())
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
		return
	}
	t.timer.Reset(wait)
}

func (t *timers) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *timers) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].slot, t.heap[j].slot = i, j
}

func (t *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].wakeAt <= t.heap[i].wakeAt {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timers) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(t.heap); c++ {
			if t.heap[c].wakeAt < t.heap[least].wakeAt {
				least = c
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}
