package shared_test

import (
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger/shared"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

// The ledger passes the suites of stores on SQLite, which keeps encoded values.
func TestSQLite(t *testing.T) {
	open := func(t *testing.T) *shared.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{Synchronous: sqlite.Normal})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return on(t, s.Engine(), true)
	}
	storetest.TestStore(t, func(t *testing.T) store.Store { return open(t) })
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return open(t) })
	enginetest.TestAttemptPasses(t, func(t *testing.T) enginetest.Attempts { return open(t) })
	enginetest.TestActions(t, func(t *testing.T) domain.Actions { return open(t) }, nil)
}
