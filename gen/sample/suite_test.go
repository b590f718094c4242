package sample_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// suite is the directory of JSON Schema's test suite in the module cache.
func suite(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "jsonschema", "testdata")
}
