package sqlite

import (
	"context"
	"fmt"
)

// BeginEpochs begins a new epoch for every log, which is required after the file was restored from a backup. Clients
// with earlier cursors and webhook subscriptions then restart at the oldest event and are notified of the gap
// (truncated). Call it before you create the server. If a log is open, BeginEpochs changes nothing and returns an
// error. See CUR-8.
func (s *Store) BeginEpochs(ctx context.Context) error {
	err := s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		s.mu.Lock()
		n := len(s.logs)
		s.mu.Unlock()
		if n > 0 {
			return fmt.Errorf("%d logs are open", n)
		}
		_, err := w.exec(ctx, "UPDATE logs SET epoch = random()")
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("begin new epochs: %w", err)
	}
	return nil
}
