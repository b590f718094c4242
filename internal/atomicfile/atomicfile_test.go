package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A check that fails leaves the file as it is, and nothing beside it.
func TestWriteIf(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		check error
		want  string
	}{{nil, "new"}, {refused, "old"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := WriteIf(path, []byte("new"), func() error {
			written, _ := filepath.Glob(filepath.Join(dir, ".f.*"))
			if len(written) != 1 {
				t.Errorf("the check comes before the temporary file: %v", written)
			}
			return test.check
		})
		if !errors.Is(err, test.check) {
			t.Error(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != test.want {
			t.Errorf("the file is %q, want %q; %v", text, test.want, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("the directory has %v, %v", left, err)
		}
	}
}
