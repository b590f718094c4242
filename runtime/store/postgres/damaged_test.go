package postgres_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/sqltest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// K2: an unreadable record of a subscription does not block the others of its shard either.
func TestDamagedSubscription(t *testing.T) {
	owned := engine.ShardFence{Shard: engine.Shard{Topic: "e", Number: 3}}
	sqltest.TestDamagedSubscription(t, engineOf(t, pgtest.Schema(t)), owned.Shard.Number, func(s sqltest.Store) map[string]func(string, int) ([]store.Subscription, error) {
		return map[string]func(string, int) ([]store.Subscription, error){"of its shard": func(after string, limit int) ([]store.Subscription, error) {
			return s.(*postgres.Store).Owned(owned).Subscriptions(t.Context(), after, limit)
		}}
	})
}

// K2: a lease with unreadable event types does not prevent claims.
func TestDamagedLease(t *testing.T) {
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	for _, name := range []string{"a", "b"} {
		if _, err := s.Join(t.Context(), name, time.Minute, map[string]string{"e": "f"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, pgtest.URL(t), "UPDATE "+schema+".leases SET types = '{' WHERE name = 'a'")
	c, err := s.Cluster(t.Context())
	if err != nil || len(c.Replicas) != 2 || c.Replicas[0].Types != nil || c.Replicas[1].Types["e"] != "f" {
		t.Fatalf("%+v, %v", c, err)
	}
}

// K2: an unreadable entry reaches no subscription, and later entries are delivered.
func TestDamagedEntry(t *testing.T) {
	schema := pgtest.Schema(t)
	a := open(t, schema, postgres.Options{})
	l := named(t, a, "log")
	for _, id := range []string{"1", "2", "3"} {
		if _, err := l.Append(t.Context(), entry(id)); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, pgtest.URL(t), "UPDATE "+schema+".entries SET timestamp = 'never' WHERE position = 1",
		"UPDATE "+schema+".entries SET targets = 'null' WHERE position = 2")
	other := named(t, open(t, schema, postgres.Options{}), "log")
	b, err := other.Read(t.Context(), 0, 10)
	if err != nil || len(b.Entries) != 3 || !engine.ForNobody(&b.Entries[0]) || !engine.ForNobody(&b.Entries[1]) || engine.ForNobody(&b.Entries[2]) {
		t.Fatalf("%+v, %v", b, err)
	}
}
