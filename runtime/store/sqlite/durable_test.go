package sqlite_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

func entry(id string) store.Entry {
	return store.Entry{EventID: id, Timestamp: events.NewTime(time.Unix(1_800_000_000, 0).UTC()), Data: json.RawMessage(`{"n":1}`)}
}

func openLog(t *testing.T, s store.Store, o store.LogOptions) store.EventLog {
	t.Helper()
	l, err := s.OpenLog(t.Context(), "log", o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendAll(t *testing.T, l store.EventLog, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := l.Append(t.Context(), entry(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func ids(t *testing.T, l store.EventLog, after store.Position) (all []string) {
	t.Helper()
	for {
		b, err := l.Read(t.Context(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Entries) == 0 {
			return all
		}
		for _, e := range b.Entries {
			all = append(all, e.EventID)
			after = e.Position
		}
	}
}

// SRV-4: entries, positions and the epoch survive a restart, exactly as they were appended.
func TestLogSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := openLog(t, s, store.LogOptions{})
	want := entry("evt_1")
	want.Timestamp, err = events.ParseTime("2026-11-20t08:00:00.10+01:00")
	if err != nil {
		t.Fatal(err)
	}
	want.Meta, want.Targets, want.Cursor = json.RawMessage(`{"a":1}`), []string{"sub_1", "sub_2"}, "c1"
	if want.Position, err = l.Append(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	toNobody := entry("evt_2")
	toNobody.Targets = []string{}
	if _, err := l.Append(t.Context(), toNobody); err != nil {
		t.Fatal(err)
	}
	epoch := l.Epoch()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), entry("late")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}

	l = openLog(t, open(t, path, sqlite.Options{}), store.LogOptions{})
	if l.Epoch() != epoch {
		t.Error("the epoch changed")
	}
	b, err := l.Read(t.Context(), 0, 10)
	if err != nil || len(b.Entries) != 2 {
		t.Fatalf("%d entries, error %v", len(b.Entries), err)
	}
	got := b.Entries[0]
	if got.Timestamp.String() != want.Timestamp.String() || string(got.Data) != string(want.Data) || string(got.Meta) != string(want.Meta) ||
		fmt.Sprint(got.Targets) != fmt.Sprint(want.Targets) || got.Cursor != want.Cursor || got.Position != want.Position {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if b.Entries[1].Targets == nil {
		t.Error("an entry for nobody became one for all")
	}
	appendAll(t, l, "evt_3")
	if got := ids(t, l, 0); fmt.Sprint(got) != "[evt_1 evt_2 evt_3]" {
		t.Errorf("after reopening: %v", got)
	}
}

// Reads below the entries in memory come from the file, in order and without holes.
func TestReadBelowTheTail(t *testing.T) {
	s := fresh(t)
	l := openLog(t, s, store.LogOptions{})
	const n = 2400
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range n / 8 {
				if _, err := l.Append(t.Context(), entry(fmt.Sprint(w, ".", i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var last store.Position
	for last < n {
		b, err := l.Read(t.Context(), last, 700)
		if err != nil || len(b.Entries) == 0 || b.Gap {
			t.Fatalf("after %d: %d entries, gap %v, error %v", last, len(b.Entries), b.Gap, err)
		}
		for _, e := range b.Entries {
			if e.Position != last+1 {
				t.Fatalf("position %d after %d", e.Position, last)
			}
			last = e.Position
		}
	}
}

// Age follows the clock of the bubble in which the store was opened.
func TestAgeInBubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, "events.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l := openLog(t, s, store.LogOptions{MaxAge: time.Hour})
		appendAll(t, l, "a")
		time.Sleep(40 * time.Minute)
		appendAll(t, l, "b")
		time.Sleep(30 * time.Minute)
		if oldest, head, _ := l.Bounds(t.Context()); oldest != 2 || head != 2 {
			t.Errorf("after 70 minutes: %d to %d", oldest, head)
		}
		time.Sleep(time.Hour)
		if oldest, head, _ := l.Bounds(t.Context()); oldest != 3 || head != 2 {
			t.Errorf("after 130 minutes: %d to %d", oldest, head)
		}
		if got := ids(t, l, 0); got != nil {
			t.Errorf("expired entries are shown: %v", got)
		}
	})
}

// A full disk gives a clear error, and nothing unstored is acknowledged or visible.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	var seen []store.Entry
	l := openLog(t, s, store.LogOptions{Appended: func(es []store.Entry) { seen = append(seen, es...) }})
	appendAll(t, l, "a")
	pages, err := s.Pages()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.LimitPages(pages + 2); err != nil {
		t.Fatal(err)
	}
	big := entry("big")
	big.Data = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	if _, err := l.Append(t.Context(), big); !errors.Is(err, sqlite.ErrFull) {
		t.Fatalf("append on a full disk: %v", err)
	}
	if _, head, _ := l.Bounds(t.Context()); head != 1 || len(seen) != 1 {
		t.Errorf("head %d, %d seen", head, len(seen))
	}
	if err := s.LimitPages(1 << 20); err != nil {
		t.Fatal(err)
	}
	appendAll(t, l, "b") // takes the position that the failed append did not
	if got := ids(t, l, 0); fmt.Sprint(got) != "[a b]" || seen[1].Position != 2 {
		t.Errorf("entries %v", got)
	}
}

// A write that cannot be stored does not fail the others of its group.
func TestGroupWithOneBadMember(t *testing.T) {
	s := fresh(t)
	l := openLog(t, s, store.LogOptions{})
	appendAll(t, l, "first")
	pages, err := s.Pages()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.LimitPages(pages + 40); err != nil {
		t.Fatal(err)
	}
	big := entry("big")
	big.Data = json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			e := entry(strconv.Itoa(i))
			if i == 7 {
				e = big
			}
			_, err := l.Append(t.Context(), e)
			if (err != nil) != (i == 7) {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if got := ids(t, l, 0); len(got) != 20 {
		t.Errorf("%d entries, want 20", len(got))
	}
}

func TestCorruptFiles(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), garbage, sqlite.Options{}); !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), garbage) {
		t.Errorf("garbage: %v", err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	exec1(t, foreign, "CREATE TABLE accounts (id INTEGER)")
	if _, err := sqlite.Open(t.Context(), foreign, sqlite.Options{}); !errors.Is(err, sqlite.ErrCorrupt) {
		t.Errorf("a database of another program: %v", err)
	}
	newer := filepath.Join(dir, "newer.db")
	if err := open(t, newer, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	exec1(t, newer, "PRAGMA user_version = 99")
	if _, err := sqlite.Open(t.Context(), newer, sqlite.Options{}); !errors.Is(err, sqlite.ErrVersion) ||
		!strings.Contains(err.Error(), "a newer release wrote it (version 99, this release knows 1); upgrade mcpe-gen") {
		t.Errorf("a file of a newer release: %v", err)
	}
	exec1(t, newer, "PRAGMA user_version = 0")
	if _, err := sqlite.Open(t.Context(), newer, sqlite.Options{}); !errors.Is(err, sqlite.ErrCorrupt) {
		t.Errorf("a file without a version: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "no", "such", "dir.db"), sqlite.Options{}); err == nil {
		t.Error("a directory that does not exist was accepted")
	}
}

// The file of a build before the first release is refused, and stays as it is.
func TestUnreleasedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	exec1(t, path, "CREATE TABLE logs (id INTEGER PRIMARY KEY); CREATE TABLE key_check (one INTEGER PRIMARY KEY); PRAGMA user_version = 13")
	const want = "it was made by an unreleased build of mcpe-gen (schema 13); use a new file"
	for range 2 {
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if !errors.Is(err, sqlite.ErrVersion) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func exec1(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

// Secrets are encrypted in the file if there is a key, and only that key opens it.
func TestKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	key := []byte("0123456789abcdef0123456789abcdef")
	secret := "the-secret-of-the-subscription"
	sub := store.Subscription{ID: "sub_1", Generation: 1, Arguments: json.RawMessage(`{}`), Secrets: []store.Secret{{Key: []byte(secret)}}}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutSubscription(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	if err := s.PutCallback(t.Context(), "k", clientstore.Callback{URL: "u", Secrets: sub.Secrets}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal([]byte(secret))
	if strings.Contains(string(file), secret) || strings.Contains(string(file), strings.Trim(string(encoded), `"`)) {
		t.Error("the secret lies in the file in clear text")
	}
	for name, k := range map[string][]byte{"no key": nil, "another key": []byte("another key of sixteen or more b"), "a bad length": []byte("short")} {
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Key: k}); !errors.Is(err, sqlite.ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, ok, err := open(t, path, sqlite.Options{Key: key}).Subscription(t.Context(), "sub_1")
	if err != nil || !ok || string(got.Secrets[0].Key) != secret {
		t.Errorf("with the key: %v, %v, %v", got.Secrets, ok, err)
	}
}

// killAfter runs a child until n of its lines counted, and kills it.
func killAfter(t *testing.T, cmd *exec.Cmd, n int, counts func(line string) bool) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if counts(sc.Text()) {
			if n--; n == 0 {
				cmd.Process.Kill()
			}
		}
	}
	cmd.Wait()
}
