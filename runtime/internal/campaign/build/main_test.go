package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The texts that the changes replace stand in the code as it is, once each.
func TestChangesApply(t *testing.T) {
	t.Chdir("../../../..") // where make runs the command
	if len(mutants) != 6 {
		t.Errorf("%d mutants", len(mutants))
	}
	for _, m := range mutants {
		now := map[string]string{}
		for _, c := range m.changes {
			if now[c.file] == "" {
				text, err := os.ReadFile(filepath.FromSlash(c.file))
				if err != nil {
					t.Fatal(err)
				}
				now[c.file] = string(text)
			}
			if n := strings.Count(now[c.file], c.old); n != 1 {
				t.Errorf("%s: %s has %q %d times, and not once", m.name, c.file, c.old, n)
			}
			now[c.file] = strings.Replace(now[c.file], c.old, c.new, 1)
		}
	}
}
