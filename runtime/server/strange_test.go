package server

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// CUR-8: a server on another store than its clients know cannot tell by itself. Their cursors can: it warns of the
// first, and of another one ten minutes later, of nothing where the store forgets with the process, and not of its own.
func TestCUR8AnotherStoreIsSaid(t *testing.T) {
	open := func(t *testing.T) *sqlite.Store {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	synctest.Test(t, func(t *testing.T) {
		known, other := open(t), open(t)
		a := newServer(t, Options{Store: known})
		e := register(t, a, "e", Hooks[filterArgs, incident]{})
		emit(t, e, incident{ID: "1"})
		cursor := pollFrom(t, a, nil, "").Cursor
		var said, forgets bytes.Buffer
		b := newServer(t, Options{Store: other, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		register(t, b, "e", Hooks[filterArgs, incident]{})
		c := newServer(t, Options{Store: memory.New(), Logger: slog.New(slog.NewTextHandler(&forgets, nil))})
		register(t, c, "e", Hooks[filterArgs, incident]{})
		times := func() int { return strings.Count(said.String(), "check that the store is the right one") }
		pollFrom(t, b, pollFrom(t, b, nil, "").Cursor, "")
		if n := times(); n != 0 {
			t.Fatalf("its own cursor is warned of: %s", said.String())
		}
		for _, want := range []int{1, 2} {
			for range 3 {
				for _, s := range []*Server{b, c} {
					if r := pollFrom(t, s, cursor, ""); !*r.Truncated {
						t.Error("not truncated")
					}
				}
			}
			if n := times(); n != want || !strings.Contains(said.String(), "another epoch") || !strings.Contains(said.String(), "event=e position=1 ") {
				t.Fatalf("%d times: %s", n, said.String())
			}
			time.Sleep(cursorWarningInterval)
		}
		if strings.Contains(forgets.String(), "right store") {
			t.Errorf("a store in memory: %s", forgets.String())
		}
	})
}
