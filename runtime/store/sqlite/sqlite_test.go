package sqlite_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
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
	storetest.TestStore(t, func(t *testing.T) store.Store { return fresh(t) })
}

func TestCursors(t *testing.T) {
	storetest.TestCursors(t, func(t *testing.T) store.CursorStore { return fresh(t) })
}

func TestSubscriptions(t *testing.T) {
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return fresh(t) })
}

func TestReceived(t *testing.T) {
	storetest.TestReceived(t, func(t *testing.T) (store.ReceivedStore, store.CursorStore) {
		s := fresh(t)
		return s, s
	})
}

func TestCallbacks(t *testing.T) {
	storetest.TestCallbacks(t, func(t *testing.T) store.CallbackStore { return fresh(t) })
}

func TestAttempts(t *testing.T) {
	storetest.TestAttempts(t, func(t *testing.T) storetest.AttemptStore { return fresh(t) })
}

func TestActions(t *testing.T) {
	storetest.TestActions(t, func(t *testing.T) store.ActionStore { return fresh(t) }, nil)
}
