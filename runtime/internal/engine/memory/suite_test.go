package memory_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
)

// The engine of several processes keeps the promises of all engines.
func TestEngine(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Fresh: func(*testing.T) func() engine.Engine {
			db := memory.NewDB()
			return func() engine.Engine { return db.Open() }
		},
		Durable: true,
	})
}

// So does the engine of one process.
func TestExclusiveEngine(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Fresh: func(*testing.T) func() engine.Engine {
			return func() engine.Engine { return memory.New() }
		},
	})
}
