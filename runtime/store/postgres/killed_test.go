package postgres_test

import (
	"context"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/killtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// CLI-6: a process killed between two messages of TakeReceived has taken all bodies or none.
func TestCLI6TakeReceivedKilled(t *testing.T) {
	t.Parallel()
	killtest.BetweenWrites(t, killtest.TakeReceived(), func(t *testing.T, writes int, c killtest.Call[killtest.Receiver]) (killtest.Receiver, bool) {
		schema := pgtest.Schema(t)
		w, dsn := newWire(t, pgtest.URL(t))
		victim, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema}))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Prepare(t.Context(), victim); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.killAfter(writes, cancel)
		failed := c.Do(ctx, victim)
		victim.Close() // it has no connection
		return open(t, schema, postgres.Options{}), failed == nil
	})
}
