package postgres

import (
	"context"
	"time"
)

// Age makes every entry of the store older.
func (s *Store) Age(ctx context.Context, by time.Duration) error {
	_, err := s.pool.Exec(ctx, s.in(`UPDATE @.entries SET appended = appended - $1::bigint * interval '1 microsecond'`), by.Microseconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.mu.Lock()
		l.fresh = time.Time{}
		l.mu.Unlock()
	}
	return err
}
