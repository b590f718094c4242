package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

var oneKey, anotherKey = []byte("0123456789abcdef0123456789abcdef"), []byte("another-key-of-32-bytes---------")

const (
	secretText = `[{"key":"YS1zZWNyZXQtb2YtMzItYnl0ZXMtLS0tLS0tLS0tLS0="}]`
	secret     = "a-secret-of-32-bytes------------"
)

func putSecret(t *testing.T, s store.SubscriptionStore, ids ...string) {
	t.Helper()
	for _, id := range ids {
		sub := store.Subscription{ID: id, Event: "e", Generation: 1, Arguments: []byte("{}"), Secrets: []store.Secret{{Key: []byte(secret)}}}
		if _, err := s.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
	}
}

// haveSecret checks that the records are listed, with their secret.
func haveSecret(t *testing.T, s store.SubscriptionStore, ids ...string) {
	t.Helper()
	subs, err := s.Subscriptions(t.Context(), "", 100)
	if err != nil || len(subs) != len(ids) {
		t.Fatalf("%d are listed, want %v, %v", len(subs), ids, err)
	}
	for i, sub := range subs {
		if sub.ID != ids[i] || len(sub.Secrets) != 1 || !bytes.Equal(sub.Secrets[0].Key, []byte(secret)) {
			t.Errorf("%s: %v", sub.ID, sub.Secrets)
		}
	}
}

// TestKeys tests files whose key is added, partly applied, removed and changed (K13, S5).
func TestKeys(t *testing.T) {
	var path string
	keyed := func(key []byte, old ...[]byte) sqlite.Options {
		return sqlite.Options{Key: key, OldKeys: old, Synchronous: sqlite.Normal, Logger: slog.New(slog.DiscardHandler)}
	}
	make := func(t *testing.T, o sqlite.Options, ids ...string) {
		path = filepath.Join(t.TempDir(), "events.db")
		s := open(t, path, o)
		putSecret(t, s, ids...)
		if err := s.PutCallback(t.Context(), "cb", clientstore.Callback{Secrets: []store.Secret{{Key: []byte(secret)}}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(t *testing.T, q ...string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, q := range q {
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	with := func(t *testing.T, o sqlite.Options, ids ...string) {
		t.Helper()
		s := open(t, path, o)
		defer s.Close()
		haveSecret(t, s, ids...)
	}
	refused := func(t *testing.T, o sqlite.Options) {
		t.Helper()
		if s, err := sqlite.Open(t.Context(), path, o); !errors.Is(err, sqlite.ErrKey) {
			if err == nil {
				s.Close()
			}
			t.Errorf("opened with another key: %v", err)
		}
	}
	// Unreadable records are listed, with the reason.
	listed := func(t *testing.T, why string) {
		t.Helper()
		s := open(t, path, keyed(oneKey))
		defer s.Close()
		one, ok, err := s.ListSubscription(t.Context(), "sub_2")
		if err != nil || !ok || one.Unreadable != why || one.Event == "" || one.Secrets != nil {
			t.Errorf("%+v %t %v, want %q", one, ok, err, why)
		}
		all, err := s.ListSubscriptions(t.Context(), "", 10, func(string) bool { return false })
		if err != nil || len(all) != 2 || all[0].Unreadable != "" || all[1].Unreadable != why {
			t.Errorf("%+v %v, want %q", all, err, why)
		}
	}
	unsealed := func(t *testing.T) (n int) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		const q = "SELECT (SELECT count(*) FROM subscriptions WHERE substr(secrets, 1, 1) <> x'01') + (SELECT count(*) FROM callbacks WHERE substr(secrets, 1, 1) <> x'01')"
		if err := db.QueryRow(q).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("the first", func(t *testing.T) {
		make(t, keyed(nil), "sub_1", "sub_2")
		with(t, keyed(oneKey), "sub_1", "sub_2")
		if n := unsealed(t); n != 0 {
			t.Errorf("%d are not sealed", n)
		}
		exec(t, "UPDATE subscriptions SET secrets = CAST(x'00' || '"+secretText+"' AS BLOB) WHERE id = 'sub_2'")
		with(t, keyed(oneKey), "sub_1")
		listed(t, engine.UnreadableDamaged)
		exec(t, "UPDATE subscriptions SET secrets = (SELECT secrets FROM subscriptions WHERE id = 'sub_1') WHERE id = 'sub_2'")
		listed(t, engine.UnreadableKey)
		refused(t, keyed(nil))
		refused(t, keyed(anotherKey))
		exec(t, "DELETE FROM key_check")
		refused(t, keyed(oneKey))
	})
	t.Run("a new one", func(t *testing.T) {
		var ids []string
		for i := range 60 {
			ids = append(ids, fmt.Sprintf("sub_%02d", i))
		}
		make(t, keyed(oneKey), ids...)
		with(t, keyed(anotherKey, oneKey), ids...)
		refused(t, keyed(oneKey))
		with(t, keyed(anotherKey), ids...)
	})
}
