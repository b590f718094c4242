//go:build unix

package filelock

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLink: a lock file that is a link is refused, and the file that it points to keeps its content.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path+Suffix); err != nil {
		t.Fatal(err)
	}
	if l, err := Acquire(t.Context(), path, 0); err == nil {
		l.Release()
		t.Error("the lock follows a link")
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "kept" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
