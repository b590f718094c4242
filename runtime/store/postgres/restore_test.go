package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

func stamped(id string) store.Entry {
	return store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}
}

func appendAll(t *testing.T, l store.EventLog, name string, n int) {
	t.Helper()
	for i := range n {
		if _, err := l.Append(t.Context(), stamped(fmt.Sprint(name, i+1))); err != nil {
			t.Fatal(err)
		}
	}
}

// ended waits until the log's epoch has ended, with or without a notification.
func ended(t *testing.T, l store.EventLog) {
	t.Helper()
	eventually(t, func() bool {
		_, _, err := l.Bounds(t.Context())
		return errors.Is(err, engine.ErrNewEpoch)
	})
}

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not happened within a minute")
		}
	}
}

// CUR-8: a process that has delivered more than a restored database contains, or other entries, begins new epochs by
// itself, whether it appends or not, and however far other processes have advanced meanwhile. All processes agree on
// the epochs.
func TestCUR8PutBackUnderProcesses(t *testing.T) {
	t.Parallel()
	uncertain := false // the entry exists in the new epoch, or was refused
	for _, c := range []struct {
		name string
		then func(t *testing.T, l engine.Log, schema string)
	}{
		{"nobody appends", func(*testing.T, engine.Log, string) {}},
		{"it appends", func(t *testing.T, l engine.Log, _ string) {
			_, err := l.Append(t.Context(), stamped("z"))
			if uncertain = errors.Is(err, store.ErrUncertain); !errors.Is(err, engine.ErrNewEpoch) {
				t.Errorf("appending tells %v", err)
			}
		}},
		{"a new process passes its head", func(t *testing.T, l engine.Log, schema string) {
			fresh := openLog(t, open(t, schema, postgres.Options{}), store.LogOptions{})
			for i := range 20 {
				_, err := fresh.Append(t.Context(), stamped(fmt.Sprint("z", i)))
				if errors.Is(err, engine.ErrNewEpoch) {
					return // the others were faster
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := pgtest.Schema(t)
			s := open(t, schema, postgres.Options{Poll: 100 * time.Millisecond})
			other := open(t, schema, postgres.Options{Poll: 100 * time.Millisecond})
			l := openLog(t, s, store.LogOptions{})
			appendAll(t, l, "x", 5)
			restore := pgtest.Backup(t, pgtest.URL(t), schema)
			appendAll(t, l, "y", 5)
			lo := openLog(t, other, store.LogOptions{})
			epoch := l.Epoch()
			restore()
			c.then(t, l, schema)
			ended(t, l)
			ended(t, lo)
			again := openLog(t, s, store.LogOptions{})
			if again.Epoch() == epoch {
				t.Error("the epoch goes on")
			}
			eventually(t, func() bool {
				return openLog(t, other, store.LogOptions{}).Epoch() == openLog(t, s, store.LogOptions{}).Epoch()
			})
			if c.name == "it appends" {
				if _, fresh, err := openLog(t, s, store.LogOptions{}).AppendOnce(t.Context(), stamped("z"), 0); fresh == uncertain || err != nil {
					t.Errorf("again: fresh %v though uncertain is %v, %v", fresh, uncertain, err)
				}
			}
		})
	}
}

// CUR-8: a log that is newer than the backup disappears, whether it had entries or not. Processes that have it open
// begin new epochs as well, and continue with it and with all others.
func TestCUR8PutBackWithoutALog(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			schema := pgtest.Schema(t)
			s, other := open(t, schema, postgres.Options{Poll: 100 * time.Millisecond}), open(t, schema, postgres.Options{Poll: 100 * time.Millisecond})
			appendAll(t, openLog(t, s, store.LogOptions{}), "x", 2)
			restore := pgtest.Backup(t, pgtest.URL(t), schema)
			late := named(t, s, "late")
			appendAll(t, late, "lost", n)
			restore()
			ended(t, late)
			for _, name := range []string{"late", "log"} {
				eventually(t, func() bool { // it may not know of the new epochs
					_, err := named(t, other, name).Append(t.Context(), stamped("y1"))
					return err == nil
				})
			}
			for name, want := range map[string]string{"late": "[y1]", "log": "[x1 x2 y1]"} {
				l := named(t, s, name)
				eventually(t, func() bool { return fmt.Sprint(ids(t, l)) == want })
			}
			if _, fresh, err := named(t, s, "late").AppendOnce(t.Context(), stamped("z"), 0); !fresh || err != nil {
				t.Errorf("it is appended to: %v, %v", fresh, err)
			}
		})
	}
}

// CUR-8: an append to such a log before a look has found it missing is not acknowledged, and its occurrence stays in
// the outbox.
func TestCUR8AppendWithoutALog(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{Poll: time.Hour, Pooled: true})
	openLog(t, s, store.LogOptions{})
	restore := pgtest.Backup(t, pgtest.URL(t), schema)
	for name, appended := range map[string]func(l store.EventLog) error{
		"any": func(l store.EventLog) error {
			_, err := l.Append(t.Context(), stamped("x"))
			return err
		},
		"once": func(l store.EventLog) error {
			_, _, err := l.AppendOnce(t.Context(), stamped("x"), 0)
			return err
		},
	} {
		late := named(t, s, name)
		restore()
		if err := appended(late); !errors.Is(err, engine.ErrNewEpoch) || errors.Is(err, store.ErrUncertain) {
			t.Errorf("%s: %v", name, err)
		}
		if err := appended(named(t, s, name)); err != nil {
			t.Errorf("%s in the new epoch: %v", name, err)
		}
	}
	named(t, s, "outbox")
	o := newOutbox(t, s)
	restore = pgtest.Backup(t, pgtest.URL(t), schema)
	named(t, s, "relayed")
	restore()
	pgtest.Exec(t, pgtest.URL(t), entryRow(schema, `'relayed'`, `'x'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`), entryRow(schema, `'outbox'`, `'y'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`),
		`UPDATE `+schema+`.outbox SET once = true`)
	if n := o.drain(); n != 0 {
		t.Errorf("%d were rejected", n)
	}
	if n := pgtest.Query(t, pgtest.URL(t), "SELECT string_agg(convert_from(event_id, 'UTF8'), ' ') FROM "+schema+".outbox"); n != "x" {
		t.Errorf("in the outbox is %q", n)
	}
}

// CUR-8: nothing else begins a new epoch: neither retention, nor many appenders, nor a log of old entries.
func TestCUR8NoEpochWithoutReason(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	a, b := open(t, schema, postgres.Options{Poll: 5 * time.Millisecond}), open(t, schema, postgres.Options{Poll: 5 * time.Millisecond})
	la, lb := openLog(t, a, store.LogOptions{}), openLog(t, b, store.LogOptions{})
	if _, err := b.Establish(t.Context(), engine.RetentionTopic, 1); err != nil {
		t.Fatal(err)
	}
	lease, err := b.Join(t.Context(), "b", time.Hour, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := engine.ShardFence{Shard: engine.Shard{Topic: engine.RetentionTopic}}
	if _, err := b.Claim(t.Context(), lease.Fence, []engine.ShardFence{h}); err != nil {
		t.Fatal(err)
	}
	h.Fence = lease.Fence
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			if _, err := lb.Append(t.Context(), stamped(fmt.Sprint("b", i))); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range 300 {
		if _, err := la.Append(t.Context(), stamped(fmt.Sprint("a", i))); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if _, err := a.OpenLog(t.Context(), "log", store.LogOptions{MaxCount: 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Retain(t.Context(), h, 10); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-done
	for _, l := range []engine.Log{la, lb} {
		if head, err := l.CatchUp(t.Context(), 601); head != 600 || err != nil {
			t.Errorf("head %d, %v", head, err)
		}
	}
}

// CUR-8, REP-19: new epochs begin on request, also in SQL, while processes run; two in a row after one backup differ.
func TestCUR8BeginEpochs(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s, other := open(t, schema, postgres.Options{Poll: 50 * time.Millisecond}), open(t, schema, postgres.Options{Poll: 50 * time.Millisecond})
	l, lo := openLog(t, s, store.LogOptions{}), openLog(t, other, store.LogOptions{})
	appendAll(t, l, "x", 2)
	restore := pgtest.Backup(t, pgtest.URL(t), schema)
	seen := map[uint64]bool{l.Epoch(): true}
	for i := range 4 {
		if i%2 == 0 {
			if err := s.BeginEpochs(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else {
			restore()
			pgtest.Exec(t, pgtest.URL(t), "SELECT "+schema+".begin_epochs()")
		}
		ended(t, l)
		ended(t, lo)
		eventually(t, func() bool {
			l, lo = openLog(t, s, store.LogOptions{}), openLog(t, other, store.LogOptions{})
			return l.Epoch() == lo.Epoch()
		})
		if seen[l.Epoch()] {
			t.Errorf("round %d: epoch %d was there before", i, l.Epoch())
		}
		seen[l.Epoch()] = true
	}
}

// CUR-8: a fence is not assigned twice after a restore.
func TestCUR8Fences(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	join := func() uint64 {
		l, err := s.Join(t.Context(), "a", time.Hour, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l.Fence
	}
	join()
	restore := pgtest.Backup(t, pgtest.URL(t), schema)
	given := map[uint64]bool{join(): true, join(): true}
	// Fences follow the database's clock, in hundredths of a second; several at one moment run ahead of it.
	eventually(t, func() bool {
		return pgtest.Query(t, pgtest.URL(t), "SELECT extract(epoch FROM clock_timestamp()) * 100 > last_fence + 1 FROM "+schema+".store") == "t"
	})
	restore()
	for range 3 {
		if f := join(); given[f] {
			t.Fatalf("fence %d was given before", f)
		}
	}
}

// CUR-8, REP-19: a lease that is granted while new epochs begin belongs to these, and its process knows them; writes
// of a shard's earlier owner are fenced, even if no other process has claimed the shard.
func TestCUR8LeaseWhileEpochsBegin(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{Poll: time.Hour})
	l := openLog(t, s, store.LogOptions{})
	old, err := s.Join(t.Context(), "a", time.Hour, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := engine.ShardFence{Shard: engine.Shard{Topic: engine.RetentionTopic}}
	if _, err := s.Establish(t.Context(), h.Shard.Topic, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), old.Fence, []engine.ShardFence{h}); err != nil {
		t.Fatal(err)
	}
	h.Fence = old.Fence
	if err := s.Owned(h).SaveProgress(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT "+schema+".begin_epochs()"); err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() {
		_, err := s.Join(t.Context(), "a", time.Hour, nil, nil)
		joined <- err
	}()
	eventually(t, func() bool {
		return pgtest.Query(t, pgtest.URL(t), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+schema+"%last_fence%'") != "0"
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Bounds(t.Context()); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("after the lease the log of before says %v", err)
	}
	if err := s.Owned(h).SaveProgress(t.Context(), nil); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("the shard's owner of before writes: %v", err)
	}
}

// REP-3, CUR-8: requests for proofs, forged or not, cause queries at a bounded rate, however many there are.
func TestREP3ProofsAreBounded(t *testing.T) {
	schema := pgtest.Schema(t)
	appendAll(t, openLog(t, open(t, schema, postgres.Options{}), store.LogOptions{}), "x", 60)
	s := open(t, schema, postgres.Options{Poll: time.Hour, Pooled: true}) // it makes no other queries
	l := openLog(t, s, store.LogOptions{})
	before, began := s.Asked(), time.Now()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for p := range store.Position(20) {
				if n, err := l.Proof(t.Context(), p+store.Position(i)*2+1); (n == 0) != (p+store.Position(i)*2+1 > 60) || err != nil {
					t.Errorf("proof %d, %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	if n, most := s.Asked()-before, int64(time.Since(began)/(100*time.Millisecond))+2; n > most {
		t.Errorf("400 proofs cost %d questions in %v, at most %d are", n, time.Since(began), most)
	}
}
