package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// The store keeps the promises of all engines.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Config{
		Fresh: func(t *testing.T) func() engine.Engine {
			path := filepath.Join(t.TempDir(), "events.db")
			return func() engine.Engine {
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: sqlite.Normal})
				if err != nil {
					t.Fatal(err)
				}
				return s.Engine()
			}
		},
		Durable: true,
	})
}
