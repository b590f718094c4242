package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/sqltest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

func keyed(key []byte, old ...[]byte) sqlite.Options {
	return sqlite.Options{Key: key, OldKeys: old, Synchronous: sqlite.Normal, Logger: slog.New(slog.DiscardHandler)}
}

// engineOf returns the engine of the stores in a new file.
func engineOf(t *testing.T) sqltest.Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(0) // no connection is open next to a store's
	return sqltest.Engine{
		Open: func(key []byte, old ...[]byte) (sqltest.Store, error) {
			return sqlite.Open(t.Context(), path, keyed(key, old...))
		},
		Exec: func(statement string) {
			t.Helper()
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		},
		Count: func(query string) (n int) {
			t.Helper()
			if err := db.QueryRow(query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		Plain:   func(text string) string { return "CAST(x'00' || '" + text + "' AS BLOB)" },
		Sealed:  "substr(secrets, 1, 1) = x'01'",
		Garbage: "x'78'",
		Forget:  "DELETE FROM key_check",
		ErrKey:  sqlite.ErrKey, ErrCorrupt: sqlite.ErrCorrupt,
	}
}

// K13, S5.
func TestFirstKey(t *testing.T) { sqltest.TestFirstKey(t, engineOf(t)) }

// K2.
func TestDamagedSubscription(t *testing.T) {
	sqltest.TestDamagedSubscription(t, engineOf(t), 0, func(sqltest.Store) map[string]func(string, int) ([]store.Subscription, error) {
		return map[string]func(string, int) ([]store.Subscription, error){}
	})
}

// K13, S5: a file is sealed with a new key if the old one is known, and then the old one opens it no more.
func TestNewKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	var ids []string
	for i := range 60 {
		ids = append(ids, fmt.Sprintf("sub_%02d", i))
	}
	for i, o := range []sqlite.Options{keyed(sqltest.OneKey), keyed(sqltest.AnotherKey, sqltest.OneKey), keyed(sqltest.AnotherKey)} {
		s := open(t, path, o)
		if i == 0 {
			sqltest.Put(t, s, ids...)
		}
		sqltest.Have(t, s, ids...)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if s, err := sqlite.Open(t.Context(), path, keyed(sqltest.OneKey)); !errors.Is(err, sqlite.ErrKey) {
				if err == nil {
					s.Close()
				}
				t.Errorf("opened with the old key: %v", err)
			}
		}
	}
}
