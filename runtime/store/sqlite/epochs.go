package sqlite

import (
	"context"
	"fmt"
)

// BeginEpochs begins a new epoch of every log, as belongs to putting back an older copy of the file:
// clients whose cursors are of before then begin again at the oldest event and are told so, webhook
// subscriptions too. It comes before the server is made: with a log open it changes nothing and
// returns an error. See CUR-8.
func (s *Store) BeginEpochs(ctx context.Context) error {
	x := renewing{e: s.engine}
	err := s.writer.do(ctx, func(ctx context.Context, w *session) error {
		s.mu.Lock()
		n := len(s.logs)
		s.mu.Unlock()
		if n > 0 {
			return fmt.Errorf("%d logs are open", n)
		}
		return x.apply(ctx, w)
	}, x.committed)
	if err != nil {
		return fmt.Errorf("begin new epochs: %w", err)
	}
	return nil
}
