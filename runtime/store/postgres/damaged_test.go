package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// K2: an unreadable record of a subscription does not block the others of its shard, and a page of such records does
// not end a list.
func TestDamagedSubscription(t *testing.T) {
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	for i := range 9 {
		sub := store.Subscription{ID: fmt.Sprint("sub_", i), Event: "e", Shard: 3, Generation: 1, Arguments: []byte(`{}`)}
		if _, err := s.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, pgtest.URL(t), "UPDATE "+schema+".subscriptions SET secrets = 'x' WHERE id IN ('sub_2', 'sub_3')",
		"UPDATE "+schema+".subscriptions SET settled = '{' WHERE id IN ('sub_4', 'sub_8')")
	for name, list := range map[string]func(after string, limit int) ([]store.Subscription, error){
		"all": func(after string, limit int) ([]store.Subscription, error) {
			return s.Subscriptions(t.Context(), after, limit)
		},
		"of its shard": func(after string, limit int) ([]store.Subscription, error) {
			return s.Owned(engine.ShardFence{Shard: engine.Shard{Topic: "e", Number: 3}}).Subscriptions(t.Context(), after, limit)
		},
	} {
		for limit := range 10 {
			var ids []string
			for after := ""; limit > 0; {
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
			if got := fmt.Sprint(ids); limit > 0 && got != "[sub_0 sub_1 sub_5 sub_6 sub_7]" {
				t.Errorf("%s by %d: %s", name, limit, got)
			}
		}
	}
	if _, ok, err := s.Subscription(t.Context(), "sub_2"); ok || err == nil {
		t.Errorf("one that cannot be read: %v, %v", ok, err)
	}
	// An operator sees all of them, and which are unreadable.
	for _, known := range []string{"", "sub_5", "sub_2"} {
		all, err := s.ListSubscriptions(t.Context(), "", 10, func(id string) bool { return id == known })
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, l := range all {
			if l.Unreadable != "" {
				got += l.ID + " "
			}
			if l.Unreadable != "" && l.Unreadable != engine.UnreadableDamaged || (l.Event == "") != (l.ID == known) {
				t.Errorf("%+v", l)
			}
		}
		if want := strings.ReplaceAll("sub_2 sub_3 sub_4 sub_8 ", known+" ", ""); known != "" && got != want || len(all) != 9 {
			t.Errorf("%d are listed, unreadable %q", len(all), got)
		}
	}
	if one, ok, err := s.ListSubscription(t.Context(), "sub_2"); !ok || err != nil || one.Unreadable != engine.UnreadableDamaged {
		t.Errorf("%+v %t %v", one, ok, err)
	}
}

// K2: a lease with unreadable event types does not prevent claims.
func TestDamagedLease(t *testing.T) {
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	for _, name := range []string{"a", "b"} {
		if _, err := s.Join(t.Context(), name, time.Minute, map[string]string{"e": "f"}); err != nil {
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
