package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// CUR-8: BeginEpochs, or the SQL in docs/one-process.md, begins new epochs and keeps the entries; it fails while a log
// is open.
func TestCUR8BeginEpochs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/one-process.md")
	if err != nil {
		t.Fatal(err)
	}
	const told = "UPDATE logs SET epoch = random()"
	if !strings.Contains(string(doc), `"`+told+`"`) {
		t.Errorf("docs/one-process.md does not say %q", told)
	}
	path := filepath.Join(t.TempDir(), "events.db")
	seen := map[uint64]bool{}
	for i, begin := range []func(){
		func() {},
		func() {
			s := open(t, path, sqlite.Options{})
			if err := errors.Join(s.BeginEpochs(t.Context()), s.Close()); err != nil {
				t.Fatal(err)
			}
		},
		func() {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = db.Exec(told); errors.Join(err, db.Close()) != nil {
				t.Fatal(err)
			}
		},
	} {
		begin()
		s := open(t, path, sqlite.Options{})
		l := openLog(t, s, store.LogOptions{})
		if seen[l.Epoch()] {
			t.Errorf("step %d: the epoch goes on", i)
		}
		seen[l.Epoch()] = true
		if _, err := l.Append(t.Context(), entry("x")); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, l, 0); len(got) != i+1 {
			t.Errorf("step %d: %v", i, got)
		}
		if err := s.BeginEpochs(t.Context()); err == nil {
			t.Error("epochs were begun under an open log")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// CUR-8: the file has the proof of the last evicted entry after the entry itself is deleted.
func TestCUR8LastEvicted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	l := openLog(t, s, store.LogOptions{MaxCount: 1})
	last := entry("last")
	for _, e := range []store.Entry{entry("a"), last, entry("z")} {
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqlite.SweepSome(l); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, sqlite.Options{})
	defer s.Close()
	l = openLog(t, s, store.LogOptions{MaxCount: 1})
	for p, want := range map[store.Position]uint32{1: 0, 2: last.Proof()} {
		if got, err := l.Proof(t.Context(), p); got != want || err != nil {
			t.Errorf("proof of %d: %d, %v; want %d", p, got, err, want)
		}
	}
}

// CUR-8: a process whose file is restored to an older state while open does not acknowledge lost events.
func TestCUR8PutBackUnderAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	defer s.Close()
	l := openLog(t, s, store.LogOptions{})
	for range 3 {
		if _, err := l.Append(t.Context(), entry("x")); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{"DELETE FROM entries WHERE position > 1", "UPDATE logs SET head = 1"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(t.Context(), entry("z")); !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), "older state") {
		t.Errorf("appended: %v", err)
	}
}
