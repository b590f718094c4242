package jetstream

import "time"

// Age makes everything in the store older: what was stamped until now, and what the open logs know of it.
func (s *Store) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.mu.Lock()
		l.stamp, l.until = l.stamp.Add(-by), time.Time{}
		l.mu.Unlock()
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	until, before := time.Now(), s.clock.older // the servers are in this process
	s.clock.older = func(at time.Time) (sum time.Duration) {
		if before != nil {
			sum = before(at)
		}
		if at.After(until) {
			return sum
		}
		return sum + by
	}
}

// Deafen closes what republished entries come by.
func (s *Store) Deafen() { s.tail.Close() }

// Decodes reads a message.
func Decodes(b []byte) error {
	_, err := decode(b)
	return err
}
