package deadletters

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// CON-4: an SQLite store with a key opens with it, as bytes or in base64, and a payload that is no JSON is shown.
func TestCON4SQLite(t *testing.T) {
	dir := t.TempDir()
	path, key := filepath.Join(dir, "consumer.db"), bytes.Repeat([]byte{7}, 32)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"evt_1", "evt_2"} {
		if err := s.PutDeadLetter(t.Context(), clientstore.DeadLetter{Key: "k", Event: "e", EventID: id, Data: []byte("{\xff"), Error: "no JSON"}, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, text, bad := filepath.Join(dir, "raw"), filepath.Join(dir, "text"), filepath.Join(dir, "bad")
	for name, content := range map[string][]byte{raw: key, text: []byte(base64.StdEncoding.EncodeToString(key) + "\n"), bad: []byte("secret?")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(keyFile string, verb string, args ...string) (string, error) {
		var out bytes.Buffer
		err := Run(t.Context(), Options{Path: path, KeyFile: keyFile, Verb: verb, Args: args, Stdout: &out})
		return out.String(), err
	}
	if _, err := run("", "list"); !errors.Is(err, sqlite.ErrKey) {
		t.Errorf("without the key: %v", err)
	}
	if _, err := run(bad, "list"); err == nil || !strings.Contains(err.Error(), "7 bytes") || strings.Contains(err.Error(), "secret?") {
		t.Errorf("with a bad key: %v", err)
	}
	if out, err := run(raw, "show", "1"); err != nil || !strings.Contains(out, `"data": "{`) {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(text, "drop", "1"); err != nil || out != "1 e evt_1: dropped\n" {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(text, "list"); err != nil || strings.Contains(out, "evt_1") || !strings.Contains(out, "evt_2") {
		t.Errorf("%s, %v", out, err)
	}
}
