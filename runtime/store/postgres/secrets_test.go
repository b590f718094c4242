package postgres_test

import (
	"bytes"
	"errors"
	"net/url"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
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

// K13, S5: a store that adopts its first key seals all its secrets, and from then on accepts none without the key.
func TestFirstKey(t *testing.T) {
	schema := pgtest.Schema(t)
	exec := func(q string) { t.Helper(); pgtest.Exec(t, pgtest.URL(t), q) }
	plain := open(t, schema, postgres.Options{})
	putSecret(t, plain, "sub_1", "sub_2")
	if err := plain.PutCallback(t.Context(), "cb", clientstore.Callback{Secrets: []store.Secret{{Key: []byte(secret)}}}); err != nil {
		t.Fatal(err)
	}
	plain.Close()
	s := open(t, schema, postgres.Options{Key: oneKey})
	haveSecret(t, s, "sub_1", "sub_2")
	if cb, ok, err := s.Callback(t.Context(), "cb"); err != nil || !ok || string(cb.Secrets[0].Key) != secret {
		t.Errorf("%+v, %v", cb, err)
	}
	for _, table := range []string{"subscriptions", "callbacks"} {
		if n := pgtest.Query(t, pgtest.URL(t), "SELECT count(*) FROM "+schema+"."+table+" WHERE get_byte(secrets, 0) <> 1"); n != "0" {
			t.Errorf("%s of %s are not sealed", n, table)
		}
	}
	for _, table := range []string{"subscriptions", "callbacks"} { // planted without the key
		exec("UPDATE " + schema + "." + table + " SET secrets = '\\x00'::bytea || convert_to('" + secretText + "', 'UTF8') WHERE " +
			map[string]string{"subscriptions": "id = 'sub_2'", "callbacks": "true"}[table])
	}
	haveSecret(t, s, "sub_1")
	if _, ok, err := s.Subscription(t.Context(), "sub_2"); ok || !errors.Is(err, postgres.ErrCorrupt) {
		t.Errorf("a planted one: %v, %v", ok, err)
	}
	if _, ok, err := s.Callback(t.Context(), "cb"); ok || !errors.Is(err, postgres.ErrCorrupt) {
		t.Errorf("a planted one of a callback: %v, %v", ok, err)
	}
	s.Close()
	haveSecret(t, open(t, schema, postgres.Options{Key: oneKey}), "sub_1")

	exec("UPDATE " + schema + ".store SET sealed = NULL")
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema, Key: anotherKey}, postgres.ErrKey, "is missing")
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema, Key: oneKey}, postgres.ErrKey, "is missing")
}

// S5: keys change while processes run: first all processes learn the new key, then they seal with it, then the old
// one is unnecessary.
func TestNewKey(t *testing.T) {
	schema := pgtest.Schema(t)
	first := open(t, schema, postgres.Options{Key: oneKey})
	putSecret(t, first, "sub_1", "sub_2")
	told := open(t, schema, postgres.Options{Key: oneKey, OldKeys: [][]byte{anotherKey}})
	first.Close()
	now := open(t, schema, postgres.Options{Key: anotherKey, OldKeys: [][]byte{oneKey}})
	haveSecret(t, now, "sub_1", "sub_2")
	prefixes := "SELECT string_agg(DISTINCT substring(secrets FROM 1 FOR 5)::text, ' ') = substring((SELECT sealed FROM " + schema + ".store) FROM 1 FOR 5)::text FROM " + schema + ".subscriptions"
	waitFor(t, "all lie under the new key", func() bool { return pgtest.Query(t, pgtest.URL(t), prefixes) == "t" })
	haveSecret(t, told, "sub_1", "sub_2")
	told.Close()
	now.Close()
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema, Key: oneKey}, postgres.ErrKey)
	isRefused(t, as(t, pgtest.URL(t), func(*url.URL, url.Values) {}), postgres.Options{Schema: schema, OldKeys: [][]byte{anotherKey}}, postgres.ErrKey)
	haveSecret(t, open(t, schema, postgres.Options{Key: anotherKey}), "sub_1", "sub_2")
}
