package clustertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/testflag"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/clustertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
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

// Of the processes every second one is not notified, and looks often (REP-2). Their clocks are apart (REP-8).
func TestPostgres(t *testing.T) {
	clustertest.Run(t, clustertest.Engine{
		New: func(t *testing.T) clustertest.Store {
			o := postgres.Options{Schema: pgtest.Schema(t), Logger: slog.New(slog.DiscardHandler), Poll: 20 * time.Millisecond}
			var ahead time.Duration
			open := func() engine.Shared {
				ahead = (ahead + 300*time.Millisecond) % (900 * time.Millisecond)
				o.Pooled = !o.Pooled
				s, err := postgres.Open(t.Context(), pgtest.URL(t), o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return &postgresStore{s, ahead}
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

// A postgresStore tells a time that differs from that of its database.
type postgresStore struct {
	*postgres.Store
	ahead time.Duration
}

func (s *postgresStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(s.ahead), err
}

func (s *postgresStore) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := s.Store.Join(ctx, name, ttl, types, report)
	l.Now = l.Now.Add(s.ahead)
	return l, err
}

func (s *postgresStore) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := s.Store.Renew(ctx, fence, ttl, types, report)
	l.Now = l.Now.Add(s.ahead)
	return l, err
}
