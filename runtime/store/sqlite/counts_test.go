package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// counted compares the counters of quotas with the rows of the file.
func counted(t *testing.T, s *sqlite.Store, path, what string, subscriptions, verifications string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for table, c := range map[string]struct {
		count func(principal string) (own, all int, err error)
		want  string
	}{
		"subscriptions": {func(p string) (int, int, error) { return s.CountSubscriptions(t.Context(), p) }, subscriptions},
		"verifications": {func(p string) (int, int, error) { return s.CountVerifications(t.Context(), p) }, verifications},
	} {
		got, rows := "", ""
		for _, principal := range []string{"ann", "bob", ""} {
			own, all, err := c.count(principal)
			if err != nil {
				t.Fatal(err)
			}
			var ownRows, allRows int
			if err := db.QueryRow("SELECT count(*) FILTER (WHERE principal = ?), count(*) FROM "+table, principal).Scan(&ownRows, &allRows); err != nil {
				t.Fatal(err)
			}
			got, rows = got+fmt.Sprintf(" %d/%d", own, all), rows+fmt.Sprintf(" %d/%d", ownRows, allRows)
		}
		if got != " "+c.want || rows != got {
			t.Errorf("%s: %s are%s, counted%s, want %s", what, table, rows, got, c.want)
		}
	}
}

// REP-12: the counters match the records, whatever is stored, replaced and deleted, also after a restart.
func TestCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{Synchronous: sqlite.Normal})
	ctx := t.Context()
	verified := func(principal, url string, until time.Time) {
		t.Helper()
		if err := s.PutVerification(ctx, store.Verification{Principal: principal, URL: url, Method: "challenge", At: time.Unix(0, 1), Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	verified("ann", "https://0.example", time.Time{})
	verified("ann", "https://1.example", time.Unix(0, 1))
	verified("ann", "https://2.example", time.Unix(0, 2))
	verified("", "https://0.example", time.Time{})
	counted(t, s, path, "verified", "0/0 0/0 0/0", "3/4 0/4 1/4")

	sub := func(id, principal string, generation, revision uint64) uint64 {
		t.Helper()
		revision, err := s.PutSubscription(ctx, store.Subscription{ID: id, Principal: principal, URL: "https://x.example", Event: "e", Arguments: []byte("{}"),
			Generation: generation, Revision: revision})
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	first := sub("sub_1", "ann", 1, 0)
	sub("sub_2", "ann", 1, 0)
	sub("sub_3", "bob", 1, 0)
	counted(t, s, path, "begun", "2/3 1/3 0/3", "3/4 0/4 1/4")
	sub("sub_1", "ann", 2, sub("sub_1", "ann", 1, first)) // refreshed, then replaced
	counted(t, s, path, "replaced", "2/3 1/3 0/3", "3/4 0/4 1/4")
	for id, generation := range map[string]uint64{"sub_1": 1, "sub_2": 1, "sub_3": 1, "sub_4": 1} {
		if err := s.DeleteSubscription(ctx, id, generation); err != nil {
			t.Fatal(err)
		}
	}
	counted(t, s, path, "deleted", "1/1 0/1 0/1", "3/4 0/4 1/4")

	for _, principal := range []string{"bob", "bob", "ann"} { // the second and the third exist already
		verified(principal, "https://2.example", time.Time{})
	}
	counted(t, s, path, "verified by others", "1/1 0/1 0/1", "3/5 1/5 1/5")
	if err := s.DeleteVerification(ctx, "bob", "https://2.example"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SweepVerifications(ctx, time.Now(), 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	counted(t, s, path, "swept", "1/1 0/1 0/1", "2/3 0/3 1/3")

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	counted(t, open(t, path, sqlite.Options{}), path, "opened by another process", "1/1 0/1 0/1", "2/3 0/3 1/3")
}

// REP-12: counting reads two rows, whatever the number of records.
func TestCountsReadNoTable(t *testing.T) {
	plan, err := fresh(t).Plan(sqlite.CountSQL, "subscriptions", "ann")
	if err != nil || len(plan) == 0 {
		t.Fatal(plan, err)
	}
	searches := 0
	for _, step := range plan {
		switch step {
		case "SEARCH quotas USING PRIMARY KEY (kind=? AND principal=?)", "SEARCH totals USING PRIMARY KEY (kind=?)":
			searches++
		case "SCAN CONSTANT ROW", "SCALAR SUBQUERY 1", "SCALAR SUBQUERY 2":
		default:
			t.Errorf("%s", step)
		}
	}
	if searches != 2 {
		t.Errorf("%q", plan)
	}
}
