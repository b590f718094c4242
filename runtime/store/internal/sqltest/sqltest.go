// Package sqltest tests stores on SQL databases whose tables it changes. It makes no compatibility promise.
package sqltest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Store stores secrets of subscriptions and of callbacks.
type Store interface {
	store.SubscriptionStore
	engine.Lister
	clientstore.CallbackStore
	Close() error
}

// An Engine opens stores on one database.
type Engine struct {
	Open func(key []byte, old ...[]byte) (Store, error)
	// Exec executes a statement, and Count returns the number that a query returns. No store is open meanwhile.
	Exec  func(statement string)
	Count func(query string) int
	// Schema is the prefix of table names.
	Schema string
	// Plain returns the SQL expression of a text as an unsealed secret. Sealed is the SQL condition for sealed ones.
	Plain  func(text string) string
	Sealed string
	// Garbage is the SQL expression of secrets that cannot be read.
	Garbage string
	// Forget is the statement that deletes the proof by which a store recognizes its key.
	Forget string
	// ErrKey is the error for a wrong key, and ErrCorrupt the one for damaged data.
	ErrKey, ErrCorrupt error
}

// OneKey and AnotherKey are keys of a store.
var OneKey, AnotherKey = []byte("0123456789abcdef0123456789abcdef"), []byte("another-key-of-32-bytes---------")

const (
	secretText = `[{"key":"YS1zZWNyZXQtb2YtMzItYnl0ZXMtLS0tLS0tLS0tLS0="}]`
	secret     = "a-secret-of-32-bytes------------"
)

// Put stores subscriptions with a secret.
func Put(t *testing.T, s store.SubscriptionStore, ids ...string) {
	t.Helper()
	for _, id := range ids {
		sub := store.Subscription{ID: id, Event: "e", Generation: 1, Arguments: []byte("{}"), Secrets: []store.Secret{{Key: []byte(secret)}}}
		if _, err := s.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
	}
}

// Have reports an error unless exactly these subscriptions are listed, with their secret.
func Have(t *testing.T, s store.SubscriptionStore, ids ...string) {
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

// TestFirstKey tests that a store that gets its first key seals all its secrets, and from then on accepts none without
// the key (K13, S5).
func TestFirstKey(t *testing.T, e Engine) {
	with := func(key []byte, f func(s Store)) {
		t.Helper()
		s, err := e.Open(key)
		if err != nil {
			t.Fatal(err)
		}
		f(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, key []byte) {
		t.Helper()
		s, err := e.Open(key)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, e.ErrKey) {
			t.Errorf("opened %s: %v", what, err)
		}
	}
	subscriptions, callbacks := e.Schema+"subscriptions", e.Schema+"callbacks"
	with(nil, func(s Store) {
		Put(t, s, "sub_1", "sub_2")
		if err := s.PutCallback(t.Context(), "cb", clientstore.Callback{Secrets: []store.Secret{{Key: []byte(secret)}}}); err != nil {
			t.Fatal(err)
		}
	})
	with(OneKey, func(s Store) {
		Have(t, s, "sub_1", "sub_2")
		if cb, ok, err := s.Callback(t.Context(), "cb"); err != nil || !ok || string(cb.Secrets[0].Key) != secret {
			t.Errorf("%+v, %v", cb, err)
		}
	})
	for _, table := range []string{subscriptions, callbacks} {
		if n := e.Count("SELECT count(*) FROM " + table + " WHERE NOT " + e.Sealed); n != 0 {
			t.Errorf("%d of %s are not sealed", n, table)
		}
	}

	// Unreadable records are listed, with the reason.
	listed := func(why string) {
		t.Helper()
		with(OneKey, func(s Store) {
			Have(t, s, "sub_1")
			one, ok, err := s.ListSubscription(t.Context(), "sub_2")
			if err != nil || !ok || one.Unreadable != why || one.Event == "" || one.Secrets != nil {
				t.Errorf("%+v %t %v, want %q", one, ok, err, why)
			}
			all, err := s.ListSubscriptions(t.Context(), "", 10, false)
			if err != nil || len(all) != 2 || all[0].Unreadable != "" || all[1].Unreadable != why {
				t.Errorf("%+v %v, want %q", all, err, why)
			}
		})
	}
	e.Exec("UPDATE " + subscriptions + " SET secrets = " + e.Plain(secretText) + " WHERE id = 'sub_2'")
	e.Exec("UPDATE " + callbacks + " SET secrets = " + e.Plain(secretText))
	listed(engine.UnreadableDamaged)
	with(OneKey, func(s Store) {
		if _, ok, err := s.Subscription(t.Context(), "sub_2"); ok || !errors.Is(err, e.ErrCorrupt) {
			t.Errorf("a planted one: %v, %v", ok, err)
		}
		if _, ok, err := s.Callback(t.Context(), "cb"); ok || !errors.Is(err, e.ErrCorrupt) {
			t.Errorf("a planted one of a callback: %v, %v", ok, err)
		}
	})
	with(OneKey, func(s Store) {
		if failing, err := s.ListSubscriptions(t.Context(), "", 10, true); err != nil || len(failing) != 1 || failing[0].ID != "sub_2" {
			t.Errorf("%+v %v", failing, err)
		}
	})
	e.Exec("UPDATE " + subscriptions + " SET secrets = (SELECT secrets FROM " + subscriptions + " WHERE id = 'sub_1') WHERE id = 'sub_2'")
	listed(engine.UnreadableKey)

	refused("without its key", nil)
	refused("with another key", AnotherKey)
	e.Exec(e.Forget)
	refused("without its proof", OneKey)
	refused("without its proof, with another key", AnotherKey)
}

// TestDamagedSubscription tests that unreadable records do not prevent others from being listed, that a page of them
// does not end a list, and that an operator sees which records are unreadable (K2). Lists returns further lists of a
// store that have the same subscriptions.
func TestDamagedSubscription(t *testing.T, e Engine, shard int, lists func(s Store) map[string]func(after string, limit int) ([]store.Subscription, error)) {
	open := func() Store {
		t.Helper()
		s, err := e.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for i := range 9 {
		sub := store.Subscription{ID: fmt.Sprint("sub_", i), Event: "e", Shard: shard, Generation: 1, Arguments: []byte(`{}`)}
		if _, err := s.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	e.Exec("UPDATE " + e.Schema + "subscriptions SET secrets = " + e.Garbage + " WHERE id IN ('sub_2', 'sub_3')")
	e.Exec("UPDATE " + e.Schema + "subscriptions SET settled = '{' WHERE id IN ('sub_4', 'sub_8')")
	s = open()
	defer s.Close()
	all := lists(s)
	all["all"] = func(after string, limit int) ([]store.Subscription, error) {
		return s.Subscriptions(t.Context(), after, limit)
	}
	for name, list := range all {
		for limit := 1; limit < 10; limit++ {
			var ids []string
			for after := ""; ; {
				page, err := list(after, limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, sub := range page {
					ids = append(ids, sub.ID)
				}
				if len(page) < limit {
					break
				}
				after = page[limit-1].ID
			}
			if got := fmt.Sprint(ids); got != "[sub_0 sub_1 sub_5 sub_6 sub_7]" {
				t.Errorf("%s by %d: %s", name, limit, got)
			}
		}
	}
	if _, ok, err := s.Subscription(t.Context(), "sub_2"); ok || err == nil {
		t.Errorf("an unreadable one: %v, %v", ok, err)
	}
	listed, err := s.ListSubscriptions(t.Context(), "", 10, false)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, l := range listed {
		if l.Unreadable != "" {
			got += l.ID + " "
		}
		if l.Unreadable != "" && l.Unreadable != engine.UnreadableDamaged || l.Event == "" {
			t.Errorf("%+v", l)
		}
	}
	if got != "sub_2 sub_3 sub_4 sub_8 " || len(listed) != 9 {
		t.Errorf("%d are listed, unreadable %q", len(listed), got)
	}
	if one, ok, err := s.ListSubscription(t.Context(), "sub_2"); !ok || err != nil || one.Unreadable != engine.UnreadableDamaged {
		t.Errorf("%+v %t %v", one, ok, err)
	}
}
