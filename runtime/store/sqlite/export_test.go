package sqlite

import (
	"context"
	"fmt"
)

// LimitPages makes the file refuse to grow beyond n pages, as a full disk would.
func (s *Store) LimitPages(n int) error {
	return s.writer.do(context.Background(), setting(fmt.Sprintf("PRAGMA max_page_count = %d", n)), nil)
}

// Pages returns how many pages the file has.
func (s *Store) Pages() (n int, err error) {
	err = s.read.QueryRow("PRAGMA page_count").Scan(&n)
	return n, err
}

func setting(pragma string) func(context.Context, *session) error {
	return func(ctx context.Context, w *session) error {
		var n int
		return w.conn.QueryRowContext(ctx, pragma).Scan(&n)
	}
}
