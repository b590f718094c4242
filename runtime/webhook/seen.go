package webhook

import (
	"context"
	"sync"
	"time"
)

// seen remembers the handled messages, bounded by count and age, and lets only one request at a
// time handle a given message.
type seen struct {
	max  int
	keep time.Duration

	mu      sync.Mutex
	entries map[string]*entry
	// order holds the accepted ids, oldest first, from next on.
	order []acceptedID
	next  int
}

type entry struct {
	// done is closed when the request that handles the message has finished.
	done     chan struct{}
	accepted bool
}

type acceptedID struct {
	id string
	at time.Time
}

func newSeen(limit int, keep time.Duration) *seen {
	return &seen{max: limit, keep: keep, entries: map[string]*entry{}}
}

// begin reports whether the caller must handle the message and then call end. False means that the
// message was already handled. While another request is handling it, begin waits for the outcome.
func (s *seen) begin(ctx context.Context, id string) (first bool, err error) {
	for {
		s.mu.Lock()
		s.forget(time.Now())
		e := s.entries[id]
		if e == nil {
			s.entries[id] = &entry{done: make(chan struct{})}
			s.mu.Unlock()
			return true, nil
		}
		accepted := e.accepted
		s.mu.Unlock()
		if accepted {
			return false, nil
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// end records whether the handler accepted the message.
func (s *seen) end(id string, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[id]
	close(e.done)
	if !accepted {
		delete(s.entries, id)
		return
	}
	e.accepted = true
	now := time.Now()
	s.order = append(s.order, acceptedID{id, now})
	s.forget(now)
}

// forget removes accepted ids that exceed the age or the count.
func (s *seen) forget(now time.Time) {
	for len(s.order)-s.next > s.max || s.next < len(s.order) && now.Sub(s.order[s.next].at) > s.keep {
		delete(s.entries, s.order[s.next].id)
		s.order[s.next] = acceptedID{}
		s.next++
	}
	// Compact only when half of the slice is free, so that the cost per id is constant.
	if s.next > 64 && s.next > len(s.order)/2 {
		s.order = append(s.order[:0], s.order[s.next:]...)
		s.next = 0
	}
}

// size returns the number of messages that are remembered or in flight.
func (s *seen) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
