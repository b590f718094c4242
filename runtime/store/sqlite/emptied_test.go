package sqlite_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// SRV-4: a store whose file was emptied, or truncated below its first page, does not open as a new one, which would
// silently forget subscriptions. The error says how to continue, each way works, and the file and its journal do not
// change.
func TestSRV4EmptiedFile(t *testing.T) {
	o := sqlite.Options{Logger: slog.New(slog.DiscardHandler)}
	for _, size := range []int64{0, 1, 100, 512, 4095} {
		path := filepath.Join(t.TempDir(), "events.db")
		s := open(t, path, o)
		appendAll(t, openLog(t, s, store.LogOptions{}), "a")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		backup, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Truncate(path, size), os.WriteFile(path+"-wal", []byte("journal"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := sqlite.Open(t.Context(), path, o)
			if !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), "the store was truncated to ") || !strings.Contains(err.Error(), "or remove it, "+path+"-wal") {
				t.Errorf("with %d bytes: %v", size, err)
			}
			file, err1 := os.ReadFile(path)
			wal, err2 := os.ReadFile(path + "-wal")
			if err := errors.Join(err1, err2); err != nil || int64(len(file)) != size || string(wal) != "journal" {
				t.Errorf("%d bytes of %d are left, and the journal is %q, %v", len(file), size, wal, err)
			}
		}
		if err := errors.Join(os.Remove(path+"-wal"), os.WriteFile(path, backup, 0o600)); err != nil {
			t.Fatal(err)
		}
		s = open(t, path, o)
		if got := ids(t, openLog(t, s, store.LogOptions{}), 0); len(got) != 1 {
			t.Errorf("the backup has %v", got)
		}
		if err := errors.Join(s.Close(), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		if err := open(t, path, o).Close(); err != nil {
			t.Errorf("after the file was removed: %v", err)
		}
	}
	path := filepath.Join(t.TempDir(), "events.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // as a mount of it needs
		t.Fatal(err)
	}
	if err := open(t, path, o).Close(); err != nil {
		t.Errorf("an empty file that was not a store: %v", err)
	}
}
