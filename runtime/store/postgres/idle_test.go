package postgres_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// REP-20, K9: each recurring query of an idle process is one statement. With the outbox four times a second, the
// control log twice, the cluster once and a renewal of two statements every third of a lease, these are under 8 a
// second.
func TestREP20IdleStatements(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := open(t, pgtest.Schema(t), postgres.Options{Pooled: true, Poll: time.Hour})
	o := newOutbox(t, s)
	l := named(t, s, engine.ControlLog).(engine.Log)
	o.drain()
	for _, c := range []struct {
		name string
		most int
		ask  func() error
	}{
		{"the outbox", 1, func() error { o.drain(); return nil }},
		{"the control log", 1, func() error { _, err := l.CatchUp(ctx, 1<<40); return err }},
		{"the cluster", 1, func() error { _, err := s.Cluster(ctx); return err }},
		{"a renewal", 2, func() error { _, err := s.Renew(ctx, o.hold.Fence, time.Minute, nil, nil); return err }},
	} {
		before := s.Statements()
		if err := c.ask(); err != nil {
			t.Fatal(err)
		}
		if n := s.Statements() - before; n < 1 || n > c.most {
			t.Errorf("%s took %d statements, want %d", c.name, n, c.most)
		}
	}
}
