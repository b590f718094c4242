package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger/ledgertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// The store keeps the promises of all engines.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Config{Fresh: freshEngine, Durable: true})
}

// The ledger keeps its promises on a file.
func TestLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it opens hundreds of files")
	}
	t.Parallel()
	ledgertest.Run(t, ledgertest.Config{Fresh: freshEngine})
}

// freshEngine returns a function that opens the engine of a new file.
func freshEngine(t *testing.T) func() engine.Engine {
	path := filepath.Join(t.TempDir(), "events.db")
	return func() engine.Engine {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: sqlite.Normal})
		if err != nil {
			t.Fatal(err)
		}
		return s.Engine()
	}
}
