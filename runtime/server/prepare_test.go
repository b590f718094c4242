package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

func newEmitOnly(t testing.TB, schema string, o Options) (*Server, *postgres.Store) {
	t.Helper()
	st := openShared(t, schema, postgres.Options{})
	o.Store, o.Replicas = st, replicas.New(replicas.Options{})
	s, err := NewEmitOnly(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, st
}

// REP-20 and REP-21: a worker without an MCP server emits within its transaction, beside a row of its
// own. Subscribers of servers get it after the commit, in order, and never what was rolled back.
func TestREP20EmitInATransaction(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := newMember(t, schema, postgres.Options{}, Options{}), newMember(t, schema, postgres.Options{}, Options{})
	register(t, a.Server, "e", Hooks[filterArgs, incident]{})
	register(t, b.Server, "e", Hooks[filterArgs, incident]{})
	streams := []*live{stream(t, a.Server, `{"name":"e"}`), stream(t, b.Server, `{"name":"e"}`)}
	for _, l := range streams {
		waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	}
	worker, st := newEmitOnly(t, schema, Options{})
	e := register(t, worker, "e", Hooks[filterArgs, incident]{})

	ctx := t.Context()
	conn, err := pgx.Connect(ctx, pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tickets := pgx.Identifier{schema, "tickets"}.Sanitize()
	if _, err := conn.Exec(ctx, "CREATE TABLE "+tickets+" (id text PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	inTransaction := func(fails error, ids ...string) {
		t.Helper()
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, id := range ids {
				if _, err := tx.Exec(ctx, "INSERT INTO "+tickets+" VALUES ($1)", id); err != nil {
					return err
				}
				p, err := Prepare(ctx, e, incident{ID: id}, events.WithID(id))
				if err != nil {
					return err
				}
				if err := st.EmitPgx(ctx, tx, p); err != nil {
					return err
				}
			}
			for _, l := range streams {
				for _, id := range l.ids() {
					for _, mine := range ids {
						if id == mine {
							t.Errorf("%s was delivered before the commit", id)
						}
					}
				}
			}
			return fails
		})
		if !errors.Is(err, fails) {
			t.Fatal(err)
		}
	}
	inTransaction(nil, "1", "2", "3")
	inTransaction(errTest, "gone")
	inTransaction(nil, "4")
	for _, l := range streams {
		waitUntil(t, "what was committed", func() bool { return len(l.ids()) >= 4 })
		wantStrings(t, "stream", l.ids(), "1", "2", "3", "4")
	}
	// What is for some subscriptions reaches those (SRV-2), what is for nobody is not even written.
	subscriptions := a.Subscriptions()
	if len(subscriptions) == 0 {
		t.Fatal("no subscription")
	}
	hers, err := Prepare(ctx, e, incident{ID: "hers"}, events.WithID("hers"), events.To(subscriptions[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	others, err := Prepare(ctx, e, incident{ID: "others"}, events.WithID("others"), events.To("sub_of_somebody_else"))
	if err != nil {
		t.Fatal(err)
	}
	nobodys, err := Prepare(ctx, e, incident{ID: "nobodys"}, events.WithID("nobodys"), events.To())
	if err != nil {
		t.Fatal(err)
	}
	rows := func(tx pgx.Tx) (n int) {
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{schema, "outbox"}.Sanitize()).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		before := rows(tx)
		if err := st.EmitPgx(ctx, tx, nobodys); err != nil || rows(tx) != before {
			t.Errorf("an occurrence for nobody became a row: %v", err)
		}
		return errors.Join(st.EmitPgx(ctx, tx, hers), st.EmitPgx(ctx, tx, others))
	}); err != nil {
		t.Fatal(err)
	}
	for _, l := range streams { // both have the same id
		waitUntil(t, "what is for these subscriptions", func() bool { return len(l.ids()) >= 5 })
	}
	// Under an id that is retained nothing is appended again (OCC-5), by Emit or in a transaction.
	p, err := Prepare(ctx, e, incident{ID: "4"}, events.WithID("4"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return st.EmitPgx(ctx, tx, p) }); err != nil {
		t.Fatal(err)
	}
	emit(t, e, incident{ID: "5"})
	emit(t, e, incident{ID: "5"})
	for _, l := range streams {
		waitUntil(t, "the end", func() bool { return len(l.ids()) >= 6 })
		wantStrings(t, "stream", l.ids(), "1", "2", "3", "4", "hers", "5")
	}
}

// REP-20: the outbox has one owner; when that server shuts down another goes on at once, and what a
// transaction emitted while nobody served comes when somebody does.
func TestREP20TheSequencerMovesOn(t *testing.T) {
	schema := pgtest.Schema(t)
	worker, st := newEmitOnly(t, schema, Options{})
	e := register(t, worker, "e", Hooks[filterArgs, incident]{})
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	n := 0
	next := func() {
		p, err := Prepare(ctx, e, incident{ID: fmt.Sprint(n)})
		if err == nil {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return st.EmitPgx(ctx, tx, p) })
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	next()
	var cursor *string
	for range 3 {
		m := newMember(t, schema, postgres.Options{}, Options{})
		register(t, m.Server, "e", Hooks[filterArgs, incident]{})
		next()
		waitUntil(t, "all moved", func() bool {
			_, head := m.types["e"].topic.Bounds()
			return int(head) == n
		})
		r := pollFrom(t, m.Server, cursor, "")
		if cursor = r.Cursor; *r.Truncated {
			t.Fatal("truncated")
		}
		began := time.Now()
		if err := m.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Logf("Shutdown took %v", d)
		}
		next()
	}
}

// REP-21: what only emits validates as a server does, also the bound of webhooks, and serves nothing. On
// a store of one process nobody would get what it emits.
func TestREP21EmitOnly(t *testing.T) {
	for _, o := range []Options{{}, {Store: memory.New()}} {
		if _, err := NewEmitOnly(o); err == nil || !strings.Contains(err.Error(), "engine.Shared") {
			t.Errorf("on a store of one process: %v", err)
		}
	}
	schema := pgtest.Schema(t)
	worker, st := newEmitOnly(t, schema, Options{})
	if _, err := NewEmitOnly(Options{Store: st, Webhooks: webhooks.New(webhooks.Options{})}); err == nil || !strings.Contains(err.Error(), "Options.Webhook") {
		t.Errorf("with webhooks: %v", err)
	}
	e := register(t, worker, "e", Hooks[filterArgs, incident]{})
	for _, emits := range []func(incident, ...events.EmitOption) error{
		func(p incident, o ...events.EmitOption) error { return e.Emit(t.Context(), p, o...) },
		func(p incident, o ...events.EmitOption) error { _, err := Prepare(t.Context(), e, p, o...); return err },
	} {
		if err := emits(incident{ID: "1", Secret: strings.Repeat("x", 30)}); !errors.Is(err, events.ErrInvalidPayload) {
			t.Errorf("an invalid payload: %v", err)
		}
		if err := emits(incident{ID: strings.Repeat("x", 300<<10)}); !errors.Is(err, events.ErrTooLarge) {
			t.Errorf("a payload that no webhook takes: %v", err)
		}
		if err := emits(incident{ID: "1"}, events.WithID("with space")); !errors.Is(err, events.ErrEventID) {
			t.Errorf("a bad id: %v", err)
		}
	}
	if err := worker.AddReadTools(); err == nil {
		t.Error("read tools were added")
	}
	check := func(context.Context, filterArgs, string) (events.Page[incident], error) {
		return events.Page[incident]{}, nil
	}
	if err := RegisterCheck(worker, incidentType("c"), check, Hooks[filterArgs, incident]{}); err == nil || !strings.Contains(err.Error(), "emit-only") {
		t.Errorf("a check: %v", err)
	}
	if err := worker.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(t.Context(), e, incident{ID: "1"}); !errors.Is(err, events.ErrClosed) {
		t.Errorf("after Shutdown: %v", err)
	}
	cluster, err := st.Cluster(t.Context())
	if err != nil || len(cluster.Replicas) != 0 {
		t.Errorf("it has a lease: %v %v", cluster.Replicas, err)
	}
}

// A lossyStore loses the answers of appends while lose is above 0; every other one was stored.
type lossyStore struct {
	*memory.Store
	lose, appends atomic.Int64
}

type lossyLog struct {
	store.EventLog
	s *lossyStore
}

func (s *lossyStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return &lossyLog{l, s}, err
}

func (l *lossyLog) lost(write func() error) error {
	n := l.s.appends.Add(1)
	if l.s.lose.Add(-1) < 0 {
		return write()
	}
	if n%2 == 1 {
		if err := write(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: cut", store.ErrUncertain)
}

func (l *lossyLog) Append(ctx context.Context, e store.Entry) (p store.Position, err error) {
	err = l.lost(func() (err error) { p, err = l.EventLog.Append(ctx, e); return err })
	return p, err
}

func (l *lossyLog) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (p store.Position, fresh bool, err error) {
	err = l.lost(func() (err error) { p, fresh, err = l.EventLog.AppendOnce(ctx, e, above); return err })
	return p, fresh, err
}

// REP-22: an append whose answer was lost is tried again under its id, generated or not, and stands
// once, whichever of the attempts was stored.
func TestREP22LostAnswersAreAskedFor(t *testing.T) {
	for _, opts := range [][]events.EmitOption{nil, {events.WithID("mine")}} {
		for stored := range 2 {
			for lose := range 5 {
				synctest.Test(t, func(t *testing.T) {
					st := &lossyStore{Store: memory.New()}
					s := newServer(t, Options{Store: st})
					e := register(t, s, "e", Hooks[filterArgs, incident]{})
					start := pollFrom(t, s, nil, "")
					st.appends.Store(int64(stored))
					st.lose.Store(int64(lose))
					if err := e.Emit(t.Context(), incident{ID: "1"}, opts...); err != nil {
						t.Fatal(err)
					}
					if got := pollFrom(t, s, start.Cursor, ""); len(got.Events) != 1 {
						t.Fatalf("%d lost, emitted as %v", lose, got.ids())
					}
				})
			}
		}
	}
}

// REP-22: when the context ends first the error names the id, under which emitting again doubles
// nothing; so it does when the server shuts down, and when the id turns out to be another's.
func TestREP22UncertainError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lossyStore{Store: memory.New()}
		s := newServer(t, Options{Store: st})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, s, nil, "")
		st.lose.Store(1 << 40)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := e.Emit(ctx, incident{ID: "1"})
		var uncertain *events.UncertainError
		if !errors.As(err, &uncertain) || uncertain.EventID == "" || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUncertain) {
			t.Fatalf("got %v", err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Fatalf("it gave up after %v", d)
		}
		if n := st.appends.Load(); n < 30 || n > 80 {
			t.Fatalf("%d attempts in a minute", n)
		}
		st.lose.Store(0)
		if err := e.Emit(t.Context(), incident{ID: "1"}, events.WithID(uncertain.EventID)); err != nil {
			t.Fatal(err)
		}
		if got := pollFrom(t, s, start.Cursor, ""); len(got.Events) != 1 {
			t.Fatalf("emitted as %v", got.ids())
		}
		// Another's id.
		emit(t, e, incident{ID: "taken"})
		st.appends.Store(1)
		st.lose.Store(1)
		if err := e.Emit(t.Context(), incident{ID: "other"}, events.WithID("taken")); !errors.Is(err, events.ErrIDReused) {
			t.Fatalf("another's id: %v", err)
		}
		st.lose.Store(1 << 40)
		failed := make(chan error)
		go func() { failed <- e.Emit(context.Background(), incident{ID: "2"}) }()
		time.Sleep(10 * time.Second)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.As(err, &uncertain) {
			t.Fatalf("at Shutdown: %v", err)
		}
	})
}
