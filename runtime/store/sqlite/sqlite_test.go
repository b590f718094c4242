package sqlite_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the file at path and closes it when the test ends.
func open(t *testing.T, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func fresh(t *testing.T) *sqlite.Store {
	return open(t, filepath.Join(t.TempDir(), "events.db"), sqlite.Options{Synchronous: sqlite.Normal})
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.TestStore(t, func(t *testing.T) store.Store { return fresh(t) })
}

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(t *testing.T) clientstore.CursorStore { return fresh(t) })
}

func TestDeadLetters(t *testing.T) {
	storetest.TestDeadLetters(t, func(t *testing.T) clientstore.DeadLetterStore { return fresh(t) })
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return fresh(t) })
}

func TestReceived(t *testing.T) {
	storetest.TestReceived(t, func(t *testing.T) (clientstore.ReceivedStore, clientstore.CursorStore) {
		s := fresh(t)
		return s, s
	})
}

func TestCallbacks(t *testing.T) {
	storetest.TestCallbacks(t, func(t *testing.T) clientstore.CallbackStore { return fresh(t) })
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	enginetest.TestAttempts(t, func(t *testing.T) enginetest.Attempts { return fresh(t) })
}

func TestLister(t *testing.T) {
	t.Parallel()
	enginetest.TestLister(t, func(t *testing.T) enginetest.Lister { return fresh(t) })
}

func TestActions(t *testing.T) {
	t.Parallel()
	enginetest.TestActions(t, func(t *testing.T) engine.Actions { return fresh(t) }, nil)
}

// K2: an unreadable record of a subscription does not prevent the start of a server: the others are listed.
func TestDamagedSubscription(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	for i := range 9 {
		sub := store.Subscription{ID: fmt.Sprint("sub_", i), Event: "e", Generation: 1, Arguments: []byte(`{}`)}
		if _, err := s.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"UPDATE subscriptions SET secrets = x'78' WHERE id IN ('sub_2', 'sub_3')", "UPDATE subscriptions SET settled = '{' WHERE id IN ('sub_4', 'sub_8')"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	for limit := 1; limit < 10; limit++ {
		var ids []string
		for after := ""; ; {
			page, err := s.Subscriptions(t.Context(), after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, sub := range page {
				ids = append(ids, sub.ID)
			}
			if len(page) < limit {
				break
			}
			after = page[limit-1].ID
		}
		if got := fmt.Sprint(ids); got != "[sub_0 sub_1 sub_5 sub_6 sub_7]" {
			t.Errorf("by %d: %s", limit, got)
		}
	}
}
