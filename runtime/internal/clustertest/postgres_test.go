package clustertest_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/testflag"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/clustertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// withPostgres are the tests, which may have started a PostgreSQL.
type withPostgres struct{ *testing.M }

func (m withPostgres) Run() int { return pgtest.Main(m.M) }

func TestMain(m *testing.M) {
	testflag.Parallel(4) // they wait for leases most of the time
	goleak.VerifyTestMain(withPostgres{m})
}

// Of the processes every second one is not notified, and looks often (REP-2).
func TestPostgres(t *testing.T) {
	clustertest.Run(t, clustertest.Engine{
		New: func(t *testing.T) clustertest.Store {
			o := postgres.Options{Schema: pgtest.Schema(t), Logger: slog.New(slog.DiscardHandler), Poll: 20 * time.Millisecond}
			open := func() engine.Shared {
				o.Pooled = !o.Pooled
				s, err := postgres.Open(t.Context(), pgtest.URL(t), o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
			unmark := func(log string) {
				pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`UPDATE %s.marks SET position = 0 WHERE log = '%s'`, o.Schema, log))
			}
			return clustertest.Store{Open: open, Unmark: unmark}
		},
		Run: func(t *testing.T, f func(t *testing.T)) {
			t.Parallel()
			f(t)
		},
	})
}
