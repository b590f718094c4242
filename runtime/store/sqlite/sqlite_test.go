package sqlite_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
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
