//go:build unix

package handled

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of the file is refused, and waits for nobody who writes to it.
func TestPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "handled")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Lines(file); err == nil || !strings.HasSuffix(err.Error(), "is not a file") {
		t.Errorf("%v", err)
	}
}
