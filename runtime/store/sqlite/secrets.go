package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// checkKey compares the key with the one the file was made with. A file made without a key takes
// one from now on; what it holds already stays as it is until it is written again.
func (s *Store) checkKey(ctx context.Context, conn *sql.Conn) error {
	var check []byte
	err := conn.QueryRowContext(ctx, "SELECT sealed FROM key_check").Scan(&check)
	switch {
	case errors.Is(err, sql.ErrNoRows) && !s.box.Keyed():
		return nil
	case errors.Is(err, sql.ErrNoRows):
		_, err = conn.ExecContext(ctx, "INSERT INTO key_check (one, sealed) VALUES (1, ?)", s.box.SealCheck())
		return err
	case err != nil:
		return err
	}
	return s.box.Check(check)
}
