package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// block takes the file's write lock with a separate connection.
func block(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() { conn.Close(); db.Close() })
}

// While another connection writes, a write waits until its context ends, and at most one time-out in all. A withdrawn
// write does not happen, and a waiting one is written when the other connection is done.
func TestWritesWhileAnotherWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	l := openLog(t, s, store.LogOptions{})
	appendAll(t, l, "first")
	s.GiveUpAfter(3)
	release := block(t, path)
	defer release()
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+20*i)*time.Millisecond)
			defer cancel()
			_, err := l.Append(ctx, entry("withdrawn"))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a context: %v", err)
			}
		})
	}
	wg.Wait() // would take 12 times 5 s
	for i := range 12 {
		wg.Go(func() { // with a context that does not end
			if _, err := l.Append(context.Background(), entry(strconv.Itoa(i))); !errors.Is(err, sqlite.ErrBusy) {
				t.Errorf("without an end: %v", err)
			}
		})
	}
	wg.Wait()
	s.GiveUpAfter(20)
	for i := range 12 {
		wg.Go(func() { appendAll(t, l, "late"+strconv.Itoa(i)) })
	}
	time.Sleep(300 * time.Millisecond) // they wait
	release()
	wg.Wait()
	if got := ids(t, l, 0); len(got) != 13 {
		t.Errorf("stored: %v", got)
	}
}

// Members of a failed group do not wait one after the other if a transaction cannot begin.
func TestFailedGroupThenBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	release := block(t, path)
	defer release()
	errs := s.Each(12)
	for _, err := range errs {
		if err == nil || err != errs[0] { // one try for all
			t.Error(err)
		}
	}
	release()
	for _, err := range s.Each(12) {
		if err != nil {
			t.Error(err)
		}
	}
}
