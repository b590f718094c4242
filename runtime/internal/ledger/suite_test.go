package ledger_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger/ledgertest"
)

// The ledger keeps its promises with values that stay what they are.
func TestTyped(t *testing.T) {
	ledgertest.Run(t, ledgertest.Config{Fresh: func(*testing.T) func() engine.Engine {
		db := memory.NewDB()
		return func() engine.Engine { return db.Open() }
	}})
}

// So it does with encoded values, as durable engines keep them.
func TestEncoded(t *testing.T) {
	ledgertest.Run(t, ledgertest.Config{Fresh: func(*testing.T) func() engine.Engine {
		db := memory.NewDB()
		return func() engine.Engine { return ledger.Encoded{Engine: db.Open()} }
	}})
}

// So it does in the only process of a store.
func TestExclusive(t *testing.T) {
	ledgertest.Run(t, ledgertest.Config{Fresh: func(*testing.T) func() engine.Engine {
		return func() engine.Engine { return memory.New() }
	}})
}
