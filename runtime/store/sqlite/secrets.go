package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
)

// checkKey compares the keys with the check value in the file. A file without a check value adopts the first key:
// only this step seals secrets that are in plain text. Since no other process has the file open, secrets under old
// keys are resealed with the current key before the store is used.
func (s *Store) checkKey(ctx context.Context, conn *sql.Conn) error {
	var check []byte
	err := conn.QueryRowContext(ctx, "SELECT sealed FROM key_check").Scan(&check)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if !s.box.Keyed() {
			return nil
		}
		return s.adopt(ctx, conn)
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
	return s.renewAll(ctx, conn) // an earlier run may have been interrupted, or a page was restored
}

// adopt seals all secrets of a file that adopts its first key.
func (s *Store) adopt(ctx context.Context, conn *sql.Conn) error {
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
				if after, more, err = s.renew(ctx, conn, t, after, true); err != nil {
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

// A sealedTable describes a table with secrets, and the id to which a secret is bound.
type sealedTable struct {
	name, column string
	id           func(key string) string
}

var sealedTables = []sealedTable{
	{"subscriptions", "id", func(key string) string { return key }},
	{"callbacks", "key", sealed.CallbackID},
}

// renewStep is the number of secrets that are resealed in one transaction.
const renewStep = 500

// renewAll reseals the secrets under old keys.
func (s *Store) renewAll(ctx context.Context, conn *sql.Conn) error {
	for _, t := range sealedTables {
		after := ""
		for more := true; more; {
			err := inTransaction(ctx, conn, func() (err error) {
				after, more, err = s.renew(ctx, conn, t, after, false)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// renew reseals up to renewStep secrets that are not sealed with the current key. It returns the last key that it has
// seen. Secrets that none of the keys opens stay, and reading them reports an error.
func (s *Store) renew(ctx context.Context, conn *sql.Conn, t sealedTable, after string, plain bool) (last string, more bool, err error) {
	rows, err := conn.QueryContext(ctx, fmt.Sprintf("SELECT %[1]s, secrets FROM %[2]s WHERE %[1]s > ? AND substr(secrets, 1, %[3]d) <> ? ORDER BY %[1]s LIMIT ?",
		t.column, t.name, sealed.PrefixSize), after, s.box.Prefix(), renewStep)
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
	return last, len(all) == renewStep, nil
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
