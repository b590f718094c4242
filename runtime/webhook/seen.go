package webhook

import (
	"context"
	"sync"
	"time"
)

// A messageSet is the set of handled messages, limited by count and age. It ensures that a message is handled by only
// one request at a time.
type messageSet struct {
	max  int
	keep time.Duration

	mu      sync.Mutex
	entries map[string]*entry
	// order holds the accepted ids, oldest first, starting at index next.
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

func newMessageSet(limit int, keep time.Duration) *messageSet {
	return &messageSet{max: limit, keep: keep, entries: map[string]*entry{}}
}

// tryBegin reports whether the caller must handle the message and then call end. It returns false if the message was
// already handled. If another request is handling the message, tryBegin waits until that request has finished.
func (s *messageSet) tryBegin(ctx context.Context, id string) (first bool, err error) {
	for {
		s.mu.Lock()
		s.removeOld(time.Now())
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
func (s *messageSet) end(id string, accepted bool) {
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
	s.removeOld(now)
}

// removeOld removes accepted ids that exceed the maximum age or number.
func (s *messageSet) removeOld(now time.Time) {
	for len(s.order)-s.next > s.max || s.next < len(s.order) && now.Sub(s.order[s.next].at) > s.keep {
		delete(s.entries, s.order[s.next].id)
		s.order[s.next] = acceptedID{}
		s.next++
	}
	// Compact the slice only when half of it is unused, which keeps the cost per id constant.
	if s.next > 64 && s.next > len(s.order)/2 {
		s.order = append(s.order[:0], s.order[s.next:]...)
		s.next = 0
	}
}
