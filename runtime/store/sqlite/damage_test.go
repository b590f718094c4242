package sqlite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// numbered appends entries with the given numbers, whose data occur nowhere else in the file.
func numbered(t *testing.T, l store.EventLog, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		e := entry(fmt.Sprint("id-", i))
		e.Data = json.RawMessage(fmt.Sprintf(`{"text":"data-%d"}`, i))
		if _, err := l.Append(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// damagePages overwrites the pages of a file that contain the texts.
func damagePages(t *testing.T, path string, texts ...string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		at := bytes.Index(file, []byte(text))
		if at < 0 {
			t.Fatalf("%s is not in the file", text)
		}
		at -= at % 4096
		copy(file[at:at+300], bytes.Repeat([]byte{0xa5}, 300))
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readOver reads a log and returns the positions that are damaged.
func readOver(t *testing.T, l store.EventLog, after store.Position) (damaged []store.Position) {
	t.Helper()
	for {
		b, err := l.Read(context.Background(), after, 64)
		var d *store.DamagedError
		switch {
		case errors.As(err, &d) && errors.Is(err, sqlite.ErrCorrupt) && d.Position > after && len(b.Entries) == 0:
			damaged = append(damaged, d.Position)
			after = d.Position
		case err != nil:
			t.Fatal(err)
		case len(b.Entries) == 0:
			return damaged
		default:
			for _, e := range b.Entries {
				if want := fmt.Sprintf(`{"text":"data-%d"}`, e.Position); string(e.Data) != want {
					t.Fatalf("entry %d is %s", e.Position, e.Data)
				}
				after = e.Position
			}
		}
	}
}

// CUR-9: every undamaged entry of a log with damaged pages can be read, whatever the limit, even if the first ones
// are damaged. Each damaged one is named by its position, has no proof, and does not prevent a new entry with its id.
func TestCUR9DamagedPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	numbered(t, openLog(t, s, store.LogOptions{}), 1, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damagePages(t, path, "data-1\"", "data-500\"")
	l := openLog(t, open(t, path, sqlite.Options{}), store.LogOptions{})
	damaged := readOver(t, l, 0)
	if n := len(damaged); n < 20 || n > 200 || damaged[0] != 1 || damaged[n-1] < 500 || damaged[n-1] > 560 {
		t.Fatalf("%v are damaged", damaged)
	}
	last := damaged[len(damaged)-1]
	if proof, err := l.Proof(t.Context(), last); proof != 0 || err != nil {
		t.Errorf("proof of a damaged one: %d, %v", proof, err)
	}
	again := func(p store.Position) (store.Position, bool) {
		e := entry(fmt.Sprint("id-", p))
		e.Data = json.RawMessage(fmt.Sprintf(`{"text":"data-%d"}`, p))
		at, fresh, err := l.AppendOnce(t.Context(), e, 0)
		if err != nil {
			t.Fatalf("again %d: %v", p, err)
		}
		return at, fresh
	}
	if at, fresh := again(last + 1); fresh || at != last+1 {
		t.Errorf("the id of a readable one was appended at %d", at)
	}
	for _, want := range []bool{true, false} {
		if at, fresh := again(last); fresh != want || at != 1001 {
			t.Errorf("the id of a damaged one: at %d, appended: %v", at, fresh)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Read(ctx, last-1, 1); !errors.Is(err, context.Canceled) || errors.As(err, new(*store.DamagedError)) {
		t.Errorf("a read that was given up: %v", err)
	}
}

// CUR-9: damaged entries are evicted like others and do not prevent the sweep from deleting the rest; entries that
// cannot be deleted are logged once.
func TestCUR9DamagedPagesExpire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(context.Background(), path, sqlite.Options{Synchronous: sqlite.Normal})
		if err != nil {
			t.Fatal(err)
		}
		l := openLog(t, s, store.LogOptions{MaxAge: time.Hour})
		numbered(t, l, 1, 600)
		time.Sleep(30 * time.Minute)
		numbered(t, l, 601, 1000)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		damagePages(t, path, "data-1\"", "data-300\"")
		var said bytes.Buffer
		if s, err = sqlite.Open(context.Background(), path, sqlite.Options{Synchronous: sqlite.Normal, Logger: slog.New(slog.NewTextHandler(&said, nil))}); err != nil {
			t.Fatal(err)
		}
		l = openLog(t, s, store.LogOptions{MaxAge: time.Hour})
		damaged := len(readOver(t, l, 0))
		time.Sleep(31 * time.Minute)
		if oldest, head, _ := l.Bounds(t.Context()); oldest != 601 || head != 1000 {
			t.Errorf("%d to %d are retained", oldest, head)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if oldest, err := s.OldestRow("log", 400); err != nil || oldest != 601 {
			t.Errorf("the first row after the damage is %d, %v", oldest, err)
		}
		stuck := 0
		if _, text, ok := strings.Cut(said.String(), "not a store: "); ok {
			fmt.Sscanf(text, "%d evicted entries up to 600 cannot be deleted", &stuck)
		}
		if damaged == 0 || stuck < damaged || stuck > 3*damaged || strings.Count(said.String(), "cannot be deleted, because") != 1 {
			t.Errorf("of %d damaged ones: %s", damaged, said.String())
		}
		numbered(t, l, 1001, 1010)
		if got := readOver(t, l, 600); got != nil {
			t.Errorf("%v are damaged after the sweep", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
