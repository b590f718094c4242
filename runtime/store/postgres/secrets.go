package postgres

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
)

// A sealedTable describes a table with secrets: its key column, as bytes and as a value, and the id that a secret is
// bound to.
type sealedTable struct {
	name, column, asBytes string
	value                 func(key []byte) any
	id                    func(key string) string
}

var sealedTables = []sealedTable{
	{"subscriptions", "id", "convert_to(id, 'UTF8')", func(key []byte) any { return string(key) }, func(key string) string { return key }},
	{"callbacks", "key", "key", func(key []byte) any { return key }, sealed.CallbackID},
}

// checkKey compares the keys with the store's check value, which identifies the key that seals secrets. A store without
// a check value adopts the key. Only this step seals plain-text secrets. If the check value belongs to an old key,
// checkKey updates it for the new key.
func (s *Store) checkKey(ctx context.Context) error {
	if !s.box.Keyed() {
		var check []byte
		if err := s.pool.QueryRow(ctx, s.qualify(`SELECT sealed FROM @.store`)).Scan(&check); err != nil || check == nil {
			return err
		}
		return s.box.Check(check)
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var check []byte
		if err := tx.QueryRow(ctx, s.qualify(`SELECT sealed FROM @.store FOR UPDATE`)).Scan(&check); err != nil {
			return err
		}
		if check == nil {
			if err := s.sealAll(ctx, tx); err != nil {
				return err
			}
		} else if err := s.box.Check(check); err != nil || bytes.HasPrefix(check, s.box.Prefix()) {
			return err
		}
		_, err := tx.Exec(ctx, s.qualify(`UPDATE @.store SET sealed = $1`), s.box.SealCheck())
		return err
	})
}

// sealAll seals all secrets of a store that is opened with a key for the first time.
func (s *Store) sealAll(ctx context.Context, tx pgx.Tx) error {
	for _, t := range sealedTables {
		var keyed bool // true if somebody removed the check value
		err := tx.QueryRow(ctx, s.qualify(`SELECT EXISTS (SELECT 1 FROM @.`+t.name+` WHERE substring(secrets FROM 1 FOR 1) = '\x01')`)).Scan(&keyed)
		if err != nil {
			return err
		}
		if keyed {
			return fmt.Errorf("%w: table %s holds encrypted secrets, but the store's check value for the key is missing", ErrKey, t.name)
		}
		after := []byte{}
		for more := true; more; {
			var left int
			if after, left, more, err = s.reseal(ctx, tx, t, after, true); err != nil {
				return err
			}
			if left > 0 {
				s.options.Logger.Error("mcp events: some secrets cannot be decrypted", "table", t.name, "records", left)
			}
		}
	}
	return nil
}

const (
	// resealBatch is the number of secrets that are resealed per step, and resealPause is the time between steps.
	// resealInterval is the time between searches for secrets that other processes have since sealed with an old key.
	resealBatch    = 100
	resealPause    = 50 * time.Millisecond
	resealInterval = time.Minute
)

// reseal reseals up to resealBatch secrets that are not sealed with the current key. It returns the last key that it
// has read, and the number of secrets that cannot be opened with any key. These secrets are not changed, and reading
// them returns an error.
func (s *Store) reseal(ctx context.Context, tx pgx.Tx, t sealedTable, after []byte, plain bool) (last []byte, left int, more bool, err error) {
	rows, err := tx.Query(ctx, s.qualify(fmt.Sprintf(`SELECT %s, secrets FROM @.%s WHERE %[3]s > $1 AND substring(secrets FROM 1 FOR %[4]d) <> $2
		ORDER BY %[3]s LIMIT $3 FOR UPDATE`, t.asBytes, t.name, t.column, sealed.PrefixSize)), t.value(after), s.box.Prefix(), int64(resealBatch))
	if err != nil {
		return nil, 0, false, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Key, Secrets []byte }])
	if err != nil {
		return nil, 0, false, err
	}
	last = after
	for _, f := range all {
		last = f.Key
		out, err := s.box.Renew(t.id(string(f.Key)), f.Secrets, plain)
		if err != nil {
			left++
			continue
		}
		if _, err := tx.Exec(ctx, s.qualify(fmt.Sprintf(`UPDATE @.%s SET secrets = $2 WHERE %s = $1`, t.name, t.column)), t.value(f.Key), out); err != nil {
			return nil, 0, false, err
		}
	}
	return last, left, len(all) == resealBatch, nil
}

// resealAll reseals the secrets that are sealed with old keys, until the store is closed.
func (s *Store) resealAll() {
	for told := -1; ; {
		left, done, err := s.resealOnce(s.ctx)
		switch {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.options.Logger.Warn("mcp events: encrypting secrets with the current key failed", "error", err)
		case done && left > 0 && left != told:
			s.options.Logger.Error("mcp events: some secrets cannot be decrypted", "records", left)
			told = left
		case done && left == 0 && told != 0:
			s.options.Logger.Info("mcp events: all secrets are encrypted with the current key")
			told = 0
		}
		if !s.pause(resealInterval) {
			return
		}
	}
}

// resealOnce iterates over all secrets, in bounded steps. If the check value identifies another key, it stops and
// returns false, because the keys are being changed and this process does not have the new key.
func (s *Store) resealOnce(ctx context.Context) (left int, done bool, err error) {
	for _, t := range sealedTables {
		after := []byte{}
		for more := true; more; {
			var next []byte
			var some int
			mine := false
			err := s.transact(ctx, nil, func(ctx context.Context, tx pgx.Tx) (err error) {
				if err := tx.QueryRow(ctx, s.qualify(fmt.Sprintf(`SELECT substring(sealed FROM 1 FOR %d) = $1 FROM @.store`, sealed.PrefixSize)), s.box.Prefix()).Scan(&mine); err != nil || !mine {
					return err
				}
				next, some, more, err = s.reseal(ctx, tx, t, after, false)
				return err
			})
			if err != nil || !mine {
				return 0, false, err
			}
			after, left = next, left+some
			if more && !s.pause(resealPause) {
				return 0, false, nil
			}
		}
	}
	return left, true, nil
}
