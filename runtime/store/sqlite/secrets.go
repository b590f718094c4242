package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
)

// checkKey compares the keys with the check value in the file. A file without a check value adopts the key. Only this
// step seals plain-text secrets. Since no other process has the file open, checkKey reseals the secrets of old keys
// with the current key before the store is used.
func (s *Store) checkKey(ctx context.Context, conn *sql.Conn) error {
	var check []byte
	err := conn.QueryRowContext(ctx, "SELECT sealed FROM key_check").Scan(&check)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if !s.box.Keyed() {
			return nil
		}
		return s.sealAll(ctx, conn)
	case err != nil:
		return err
	}
	if err := s.box.Check(check); err != nil {
		return err
	}
	if !bytes.HasPrefix(check, s.box.Prefix()) {
		if err := setCheck(ctx, conn, s.box.SealCheck()); err != nil {
			return err
		}
	}
	return s.resealAll(ctx, conn) // an earlier run may have been interrupted, or a page was restored
}

// sealAll seals all secrets of a file that is opened with a key for the first time.
func (s *Store) sealAll(ctx context.Context, conn *sql.Conn) error {
	return inTransaction(ctx, conn, func() error {
		for _, t := range sealedTables {
			var keyed bool // true if somebody removed the check value
			err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+t.name+" WHERE substr(secrets, 1, 1) = x'01')").Scan(&keyed)
			if err != nil {
				return err
			}
			if keyed {
				return fmt.Errorf("%w: table %s holds encrypted secrets, but the file's check value for the key is missing", sealed.ErrKey, t.name)
			}
			after := ""
			for more := true; more; {
				if after, more, err = s.reseal(ctx, conn, t, after, true); err != nil {
					return err
				}
			}
		}
		return setCheck(ctx, conn, s.box.SealCheck())
	})
}

func setCheck(ctx context.Context, conn *sql.Conn, check []byte) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO key_check (one, sealed) VALUES (1, ?) ON CONFLICT DO UPDATE SET sealed = excluded.sealed", check)
	return err
}

// A sealedTable describes a table with secrets, and the id that a secret is bound to.
type sealedTable struct {
	name, column string
	id           func(key string) string
}

var sealedTables = []sealedTable{
	{"subscriptions", "id", func(key string) string { return key }},
	{"callbacks", "key", sealed.CallbackID},
}

// resealBatch is the number of secrets that are resealed per transaction.
const resealBatch = 500

// resealAll reseals the secrets that are sealed with old keys.
func (s *Store) resealAll(ctx context.Context, conn *sql.Conn) error {
	for _, t := range sealedTables {
		after := ""
		for more := true; more; {
			err := inTransaction(ctx, conn, func() (err error) {
				after, more, err = s.reseal(ctx, conn, t, after, false)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reseal reseals up to resealBatch secrets that are not sealed with the current key. It returns the last key that it
// has read. Secrets that cannot be opened with any key are not changed, and reading them returns an error.
func (s *Store) reseal(ctx context.Context, conn *sql.Conn, t sealedTable, after string, plain bool) (last string, more bool, err error) {
	rows, err := conn.QueryContext(ctx, fmt.Sprintf("SELECT %[1]s, secrets FROM %[2]s WHERE %[1]s > ? AND substr(secrets, 1, %[3]d) <> ? ORDER BY %[1]s LIMIT ?",
		t.column, t.name, sealed.PrefixSize), after, s.box.Prefix(), resealBatch)
	if err != nil {
		return "", false, err
	}
	defer rows.Close()
	type found struct {
		key     string
		secrets []byte
	}
	var all []found
	for rows.Next() {
		var f found
		if err := rows.Scan(&f.key, &f.secrets); err != nil {
			return "", false, err
		}
		all = append(all, f)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return "", false, err
	}
	last = after
	for _, f := range all {
		last = f.key
		out, err := s.box.Renew(t.id(f.key), f.secrets, plain)
		if err != nil {
			continue
		}
		if _, err := conn.ExecContext(ctx, "UPDATE "+t.name+" SET secrets = ? WHERE "+t.column+" = ?", out, f.key); err != nil {
			return "", false, err
		}
	}
	return last, len(all) == resealBatch, nil
}

func inTransaction(ctx context.Context, conn *sql.Conn, f func() error) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}
