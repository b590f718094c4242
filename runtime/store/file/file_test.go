package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func open(t *testing.T, path string) *file.Cursors {
	t.Helper()
	c, err := file.OpenCursors(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// reopen opens the file of c, as the next process does.
func reopen(t *testing.T, c *file.Cursors, path string) *file.Cursors {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(t *testing.T) clientstore.CursorStore {
		return open(t, filepath.Join(t.TempDir(), "cursors.json"))
	})
}

func TestDeadLetters(t *testing.T) {
	storetest.TestDeadLetters(t, func(t *testing.T) clientstore.DeadLetterStore {
		return open(t, filepath.Join(t.TempDir(), "cursors.json"))
	})
}

// CLI-6: cursors survive the process.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors.json")
	want := clientstore.Saved{Cursor: "c", EventIDs: []string{"a"}}
	c := open(t, path)
	if err := c.Save(t.Context(), "k", want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := reopen(t, c, path).Load(t.Context(), "k")
	if err != nil || !ok || got.Cursor != "c" || len(got.EventIDs) != 1 {
		t.Fatalf("Load = %+v, %v, %v", got, ok, err)
	}
	rest, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if len(rest) != 0 {
		t.Fatalf("temporary files left: %v", rest)
	}
}

// CLI-6: a Save that fails returns an error with its key, and leaves file and memory as they were.
func TestSaveFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := open(t, filepath.Join(dir, "cursors.json"))
	if err := c.Save(t.Context(), "k", clientstore.Saved{Cursor: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), "k", clientstore.Saved{Cursor: "2"}); err == nil || !strings.Contains(err.Error(), `saving cursor "k"`) {
		t.Fatalf("saved into a directory that is gone: %v", err)
	}
	if s, _, _ := c.Load(t.Context(), "k"); s.Cursor != "1" {
		t.Fatalf("Load = %+v", s)
	}
	if err := c.Delete(t.Context(), "k"); err == nil {
		t.Fatal("deleted in a directory that is gone")
	}
	if _, err := file.OpenCursors(filepath.Join(dir, "cursors.json")); err == nil {
		t.Fatal("opened in a directory that is gone")
	}
}

func TestCallbacks(t *testing.T) {
	storetest.TestCallbacks(t, func(t *testing.T) clientstore.CallbackStore {
		return open(t, filepath.Join(t.TempDir(), "cursors.json"))
	})
}

// CLI-5: callbacks survive the process next to the cursors, in a file that only its owner can read.
func TestCallbackReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors.json")
	c := open(t, path)
	if err := c.Save(t.Context(), "k", clientstore.Saved{Cursor: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutCallback(t.Context(), "k", clientstore.Callback{URL: "u", Path: "/p", Secrets: []store.Secret{{Key: []byte("s")}}}); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, c, path)
	if cb, ok, err := again.Callback(t.Context(), "k"); err != nil || !ok || cb.URL != "u" || len(cb.Secrets) != 1 {
		t.Errorf("Callback = %+v, %v, %v", cb, ok, err)
	}
	if _, ok, err := again.Load(t.Context(), "k"); err != nil || !ok {
		t.Errorf("Load = %v, %v", ok, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// CON-4: dead letters survive the process, byte for byte, and no sequence is assigned twice.
func TestDeadLettersReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors.json")
	raw := "{ \"a\" : \"<\" }"
	c := open(t, path)
	if err := c.PutDeadLetter(t.Context(), clientstore.DeadLetter{Key: "k", EventID: "e", Data: []byte(raw)}, 1); err != nil {
		t.Fatal(err)
	}
	c = reopen(t, c, path)
	got, err := c.DeadLetters(t.Context(), 0, 10)
	if err != nil || len(got) != 1 || string(got[0].Data) != raw {
		t.Fatalf("%+v, %v", got, err)
	}
	if found, err := c.DeleteDeadLetter(t.Context(), got[0].Sequence); !found || err != nil {
		t.Fatal(found, err)
	}
	c = reopen(t, c, path)
	if err := c.PutDeadLetter(t.Context(), clientstore.DeadLetter{Key: "k", EventID: "f"}, 1); err != nil {
		t.Fatal(err)
	}
	if again, err := reopen(t, c, path).DeadLetters(t.Context(), 0, 10); err != nil || len(again) != 1 || again[0].Sequence <= got[0].Sequence {
		t.Errorf("%+v, %v", again, err)
	}
}

// Opening a file that is already open fails with its name and holder (K11), and does not affect its cursors.
func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors.json")
	synctest.Test(t, func(t *testing.T) { // it waits
		open(t, path)
		_, err := file.OpenCursors(path)
		if !errors.Is(err, file.ErrBusy) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
			t.Error(err)
		}
	})
}
