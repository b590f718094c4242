package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// A full disk and a file that cannot be written are said clearly: nothing of the commit is stored, visible or told, and
// the same commit succeeds afterwards.
func TestCommitThatCannotBeStored(t *testing.T) {
	for name, test := range map[string]struct {
		begin, end func(s *sqlite.Store) error
		is         error
		says       string
	}{
		"full": {
			begin: func(s *sqlite.Store) error {
				pages, err := s.Pages()
				return errors.Join(err, s.LimitPages(pages+2))
			},
			end:  func(s *sqlite.Store) error { return s.LimitPages(1 << 20) },
			is:   sqlite.ErrFull,
			says: "disk is full",
		},
		"read-only": {
			begin: func(s *sqlite.Store) error { return s.Exec("PRAGMA query_only = 1") },
			end:   func(s *sqlite.Store) error { return s.Exec("PRAGMA query_only = 0") },
			says:  "file is read-only, make it and its directory writable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			e := enter(t, s)
			on := mustCommit(t, e, write("small", "before", 0))[0]
			mark, err := e.Changes(t.Context(), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.begin(s); err != nil {
				t.Fatal(err)
			}
			writes := []store.Write{write("small", "after", on), write("large", strings.Repeat("x", store.MaxValue), 0)}
			_, err = commit(t.Context(), e, writes...)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) || errors.Is(err, store.ErrUncertain) {
				t.Errorf("committed: %v", err)
			}
			if got := get(t, e, "small"); got.Revision != on || get(t, e, "large").Revision != 0 {
				t.Errorf("stored: %+v", got)
			}
			if err := test.end(s); err != nil {
				t.Fatal(err)
			}
			if c, err := e.Changes(t.Context(), mark.Next, 0); err != nil || len(c.Names) > 0 {
				t.Errorf("told: %v, %v", c.Names, err)
			}
			mustCommit(t, e, writes...)
			if c, err := e.Changes(t.Context(), mark.Next, 0); err != nil || len(c.Names) != 2 {
				t.Errorf("told afterwards: %v, %v", c.Names, err)
			}
		})
	}
}

// Commits that wait together share a transaction with appends, and a conflict, a full disk or another error costs only
// the commit that it concerns.
func TestCommitsShareATransaction(t *testing.T) {
	s := fresh(t)
	e, l := enter(t, s), openLog(t, s, store.LogOptions{})
	on := mustCommit(t, e, write("taken", "x", 0))[0]
	before, err := s.Transactions()
	if err != nil {
		t.Fatal(err)
	}
	release := s.Stall(t)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			key := fmt.Sprint("k/", i)
			switch i % 3 {
			case 0:
				mustCommit(t, e, write(key, "x", 0))
			case 1:
				_, err := commit(t.Context(), e, write(key, "x", 0), write("taken", "x", on+1), write("absent", "x", on))
				if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) || fmt.Sprint(conflict.Keys) != "[taken absent]" {
					t.Errorf("commit %d: %v", i, err)
				}
			default:
				appendAll(t, l, key)
			}
		})
	}
	release(60)
	wg.Wait()
	if after, err := s.Transactions(); err != nil || after-before != 3 { // Stall, all, Transactions
		t.Errorf("%d transactions, %v", after-before, err)
	}
	if all, _ := scanAll(t, e, "k/", 100); len(all) != 20 || len(ids(t, l, 0)) != 20 {
		t.Errorf("%d records, %d entries", len(all), len(ids(t, l, 0)))
	}
}

// A transaction takes a bounded number of rows, however many commits wait.
func TestTransactionIsBounded(t *testing.T) {
	s := fresh(t)
	e := enter(t, s)
	before, err := s.Transactions()
	if err != nil {
		t.Fatal(err)
	}
	release := s.Stall(t)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			writes := make([]store.Write, store.MaxCommit)
			for j := range writes {
				writes[j] = write(fmt.Sprintf("k/%d/%d", i, j), "x", 0)
			}
			mustCommit(t, e, writes...)
		})
	}
	release(10)
	wg.Wait()
	if after, err := s.Transactions(); err != nil || after-before != 5 { // Stall, three of 4 commits or fewer, Transactions
		t.Errorf("%d transactions, %v", after-before, err)
	}
}

// A commit whose context ends while it waits for the writer is not written, then or later, and nobody is told of it.
func TestCommitWithdrawn(t *testing.T) {
	s := fresh(t)
	e := enter(t, s)
	mark, err := e.Changes(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	release := s.Stall(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := commit(ctx, e, write("k", "x", 0))
		done <- err
	}()
	s.AwaitQueued(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUncertain) {
		t.Errorf("committed: %v", err)
	}
	release(0)
	mustCommit(t, e, write("next", "x", 0))
	if got := get(t, e, "k"); got.Revision != 0 {
		t.Errorf("stored: %+v", got)
	}
	if c, err := e.Changes(t.Context(), mark.Next, 0); err != nil || fmt.Sprint(c.Names) != "[next]" {
		t.Errorf("told: %v, %v", c.Names, err)
	}
}

// What is too large or malformed is refused, and the error says how.
func TestRecordsRefuse(t *testing.T) {
	e := enter(t, fresh(t))
	if _, err := commit(t.Context(), e, write("k", strings.Repeat("x", store.MaxValue+1), 0)); err == nil || !strings.Contains(err.Error(), "the value of k has 491521 bytes") {
		t.Errorf("a large value: %v", err)
	}
	if _, err := e.Get(t.Context(), store.Latest, make([]string, store.MaxGet+1)...); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("many keys: %v", err)
	}
	if _, err := commit(t.Context(), e, write("a//b", "x", 0)); err == nil || !strings.Contains(err.Error(), "empty segment") {
		t.Errorf("a malformed key: %v", err)
	}
}

// A page of Scan ends before it is large, and no query of records reads the whole table.
func TestScanIsBounded(t *testing.T) {
	s := fresh(t)
	e := enter(t, s)
	const n = 40
	for i := range n {
		mustCommit(t, e, write(fmt.Sprintf("k/%02d", i), strings.Repeat("x", store.MaxValue), 0))
	}
	all, largest := scanAll(t, e, "k/", 100)
	if len(all) != n || largest > 18 {
		t.Errorf("%d records, up to %d of them in a page", len(all), largest)
	}
	for query, args := range map[string][]any{
		sqlite.ScanRecords: {"k/", "k0", "k/17", 100},
		sqlite.GetRecords:  {`["k/1"]`},
		sqlite.MovedKeys:   {`{"k/1":1}`},
		"SELECT key FROM records WHERE gone < ? ORDER BY gone LIMIT ?": {1, 1},
	} {
		plan, err := s.Plan(query, args...)
		text := strings.Join(plan, "; ")
		if err != nil || strings.Contains(text, "SCAN r") || strings.Contains(text, "TEMP B-TREE") || !strings.Contains(text, "INDEX") {
			t.Errorf("%s: %s, %v", query, text, err)
		}
	}
}

// REP-20: a group of entries of which one cannot be stored is not stored at all, and Appended is not called.
func TestREP20GroupIsOneStep(t *testing.T) {
	s := fresh(t)
	e := enter(t, s)
	var calls []int
	l := must(e.OpenLog(t.Context(), "log", store.LogOptions{Appended: func(es []store.Entry) { calls = append(calls, len(es)) }}))
	large := entry("large")
	large.Data = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	group := []engine.Append{{Entry: entry("a")}, {Entry: large}, {Entry: entry("b")}}
	pages, err := s.Pages()
	if err := errors.Join(err, s.LimitPages(pages+2)); err != nil {
		t.Fatal(err)
	}
	if done, err := l.Append(t.Context(), group...); !errors.Is(err, sqlite.ErrFull) || done != nil {
		t.Errorf("appended on a full disk: %+v, %v", done, err)
	}
	if b, err := l.Read(t.Context(), 0, 10); err != nil || b.Head != 0 || len(calls) != 0 {
		t.Errorf("head %d, calls %v, %v", b.Head, calls, err)
	}
	if err := s.LimitPages(1 << 20); err != nil {
		t.Fatal(err)
	}
	done, err := l.Append(t.Context(), group...)
	if err != nil || len(done) != 3 || done[0].Position != 1 || done[2].Position != 3 || len(calls) != 1 || calls[0] != 3 {
		t.Errorf("appended: %+v, calls %v, %v", done, calls, err)
	}
}

// An entry that SQLite can never store is refused as such.
func TestRefusedEntry(t *testing.T) {
	s := fresh(t)
	e := enter(t, s)
	l := must(e.OpenLog(t.Context(), "log", store.LogOptions{}))
	if err := s.LimitLength(1 << 16); err != nil {
		t.Fatal(err)
	}
	large := entry("large")
	large.Data = json.RawMessage(`"` + strings.Repeat("x", 1<<17) + `"`)
	if _, err := l.Append(t.Context(), engine.Append{Entry: large}); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("appended: %v", err)
	}
	if done, err := l.Append(t.Context(), engine.Append{Entry: entry("small")}); err != nil || done[0].Position != 1 {
		t.Errorf("appended afterwards: %+v, %v", done, err)
	}
}
