package sqlite_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

func recordRows(t *testing.T, s *sqlite.Store) int {
	t.Helper()
	n, err := s.RecordRows()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Records and tombstones whose time has come leave the file without a commit, in steps that are bounded; others stay.
func TestDueRecordsLeaveTheFile(t *testing.T) {
	bubbleStore(t, t.TempDir(), func(t *testing.T, s *sqlite.Store) {
		e := enter(t, s)
		until := time.Now().Add(10 * time.Minute)
		const n = 2500
		for i := 0; i < n; i += 500 {
			writes := make([]store.Write, 500)
			for j := range writes {
				writes[j] = store.Write{Key: fmt.Sprint("once/", i+j), Value: store.Bytes("x"), Once: true, Until: until}
			}
			mustCommit(t, e, writes...)
		}
		timed := mustCommit(t, e, store.Write{Key: "timed", Value: store.Bytes("x"), Until: until}, write("stays", "x", 0))[0]
		deleted := mustCommit(t, e, store.Write{Key: "replaced", Value: store.Bytes("x"), Until: until}, write("deleted", "x", 0))
		mustCommit(t, e, write("replaced", "y", deleted[0]), store.Write{Key: "deleted", On: deleted[1]})
		time.Sleep(store.TombstoneAge - time.Second)
		synctest.Wait()
		if n := recordRows(t, s); n != 2504 {
			t.Errorf("%d rows after 299 s", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := get(t, e, "deleted"); got.Revision != 0 || recordRows(t, s) != 2503 {
			t.Errorf("the tombstone: %+v, %d rows", got, recordRows(t, s))
		}
		time.Sleep(time.Until(until) + time.Second) // the sweeper's turn comes at 11 minutes
		if more, err := s.SweepRecords(); !more || err != nil || recordRows(t, s) != 2503-1024 {
			t.Errorf("one step: %v, %v, %d rows", more, err, recordRows(t, s))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all, _ := scanAll(t, e, "", 100)
		if got := fmt.Sprint(keys(all)); got != "[replaced stays]" || recordRows(t, s) != 3 {
			t.Errorf("after a minute: %s, %d rows", got, recordRows(t, s))
		}
		if got := get(t, e, "timed"); got.Revision == 0 || got.Revision == timed || got.Value != nil {
			t.Errorf("the tombstone of a record that was due: %+v", got)
		}
		time.Sleep(store.TombstoneAge + time.Minute)
		synctest.Wait()
		if n := recordRows(t, s); n != 2 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// A store in which nothing is due is not written.
func TestSweepWritesNothingInVain(t *testing.T) {
	bubbleStore(t, t.TempDir(), func(t *testing.T, s *sqlite.Store) {
		mustCommit(t, enter(t, s), store.Write{Key: "k", Value: store.Bytes("x"), Until: time.Now().Add(2 * time.Hour)})
		before, err := s.Transactions()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if after, err := s.Transactions(); err != nil || after != before+1 { // that of Transactions
			t.Errorf("%d transactions, %v", after-before, err)
		}
	})
}
