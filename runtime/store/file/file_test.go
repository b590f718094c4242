package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func open(t *testing.T, path string) *file.Cursors {
	t.Helper()
	c, err := file.OpenCursors(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(t *testing.T) store.CursorStore {
		return open(t, filepath.Join(t.TempDir(), "cursors.json"))
	})
}

// CLI-6: cursors survive the process.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors.json")
	want := store.Saved{Cursor: "c", EventIDs: []string{"a"}}
	if err := open(t, path).Save(t.Context(), "k", want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := open(t, path).Load(t.Context(), "k")
	if err != nil || !ok || got.Cursor != "c" || len(got.EventIDs) != 1 {
		t.Fatalf("Load = %+v, %v, %v", got, ok, err)
	}
	rest, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if len(rest) != 0 {
		t.Fatalf("temporary files left: %v", rest)
	}
}

// A file that cannot be read is an error that names it, and stays as it is.
func TestCorrupted(t *testing.T) {
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1,"cursors":{"k":{}}}`, `[]`} {
		path := filepath.Join(t.TempDir(), "cursors.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := file.OpenCursors(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
		if left, _ := os.ReadFile(path); string(left) != text {
			t.Errorf("%q was changed to %q", text, left)
		}
	}
}

// A Save that fails leaves file and memory as they were.
func TestSaveFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := open(t, filepath.Join(dir, "cursors.json"))
	if err := c.Save(t.Context(), "k", store.Saved{Cursor: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), "k", store.Saved{Cursor: "2"}); err == nil {
		t.Fatal("saved into a directory that is gone")
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

func ExampleOpenCursors() {
	dir, _ := os.MkdirTemp("", "cursors")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "cursors.json")
	c, _ := file.OpenCursors(path)
	c.Save(context.Background(), "incidents", store.Saved{Cursor: "AQE"})
	again, _ := file.OpenCursors(path)
	s, _, _ := again.Load(context.Background(), "incidents")
	fmt.Println(s.Cursor)
	// Output: AQE
}

func TestCallbacks(t *testing.T) {
	storetest.TestCallbacks(t, func(t *testing.T) store.CallbackStore {
		return open(t, filepath.Join(t.TempDir(), "cursors.json"))
	})
}

// CLI-5: callbacks survive the process beside the cursors, in a file that only its owner reads.
func TestCallbackReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursors.json")
	c := open(t, path)
	if err := c.Save(t.Context(), "k", store.Saved{Cursor: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutCallback(t.Context(), "k", store.Callback{URL: "u", Path: "/p", Secrets: []store.Secret{{Key: []byte("s")}}}); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
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
