package file_test

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
)

// logged collects what is logged by slog.Default until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(os.Stderr)
	})
	return &text
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fill saves data of every kind.
func fill(t *testing.T, c *file.Cursors) {
	t.Helper()
	steps := []func() error{
		func() error {
			return c.Save(t.Context(), "a", clientstore.Saved{Cursor: "AQE", EventIDs: []string{"01a202a0"}})
		},
		func() error {
			return c.PutCallback(t.Context(), "a", clientstore.Callback{URL: "https://a.example/", Secrets: []store.Secret{{Key: []byte("s")}}})
		},
		func() error { return c.PutDeadLetter(t.Context(), clientstore.DeadLetter{Key: "a", EventID: "x"}, 9) },
		func() error {
			return c.PutDeadLetter(t.Context(), clientstore.DeadLetter{Key: "a", EventID: "e", Data: []byte("{}")}, 9)
		},
		func() error {
			_, err := c.DeleteDeadLetter(t.Context(), 1)
			return err
		},
		func() error { return c.Save(t.Context(), "a", clientstore.Saved{Cursor: "AQI"}) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// content describes the contents of a store under the key a.
func content(t *testing.T, c *file.Cursors) string {
	t.Helper()
	s, found, err := c.Load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	cb, called, err := c.Callback(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	letters, err := c.DeadLetters(t.Context(), 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(found, s, called, cb, letters)
}

// CLI-6: unusable lines are set aside, even if their checksum matches or is missing; the others are used.
func TestDamagedLines(t *testing.T) {
	log := logged(t)
	path := filepath.Join(t.TempDir(), "cursors.json")
	c := open(t, path)
	fill(t, c)
	want := content(t, c)
	c.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{
		"{}}",
		`{"kind":"cursor","key":"k1","value":{}}`,
		`{"kind":"callback","key":"k2","value":5}`,
		`{"kind":"deadLetter","key":"1","value":{"sequence":2}}`,
		`{"kind":"lastDeadLetter","key":"","value":"1"}`,
		`{"kind":"cursors","key":"k3","value":{"cursor":"c"}}`,
	}
	for i, line := range slices.Clone(lines) {
		write(t, path, string(whole)+line+"\n")
		log.Reset()
		os.Remove(path + ".damaged")
		c, err := file.OpenCursors(path)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := content(t, c); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		c.Close()
		aside, _ := os.ReadFile(path + ".damaged")
		if string(aside) != line+"\n" || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "a subscription may begin now or get events twice") {
			t.Errorf("line %d: %q was set aside, %s", i, aside, log)
		}
	}
	if c := open(t, path); content(t, c) != want {
		t.Error(content(t, c))
	}
}

// A file that does not have cursors causes an error with its full path, and does not change. Package journal tests the
// other errors.
func TestRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"": "it is empty",
		`{"format":"mcpe-gen cursors","version":3}`: "a newer release wrote it (version 3, this release knows 1); upgrade mcpe-gen",
		`{"format":"mcpe-gen inbox","version":1}`:   "it is not a file of mcpe-gen cursors",
	} {
		write(t, "cursors.json", text)
		_, err := file.OpenCursors("cursors.json")
		if err == nil || !strings.Contains(err.Error(), "opening cursor file "+filepath.Join(dir, "cursors.json")+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if left, _ := os.ReadFile("cursors.json"); string(left) != text {
			t.Errorf("%q was changed to %q", text, left)
		}
	}
}
