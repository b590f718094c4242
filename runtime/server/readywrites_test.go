package server

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

var errFull = errors.New("database or disk is full")

// A fullStore answers, and takes no writes while it is full.
type fullStore struct {
	*memory.Store
	full atomic.Bool
}

func (*fullStore) Durable() bool { return true }

func (s *fullStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return fullLog{l, &s.full}, err
}

func (s *fullStore) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	if s.full.Load() {
		return 0, errFull
	}
	return s.Store.PutSubscription(ctx, sub)
}

type fullLog struct {
	store.EventLog
	full *atomic.Bool
}

func (l fullLog) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	if l.full.Load() {
		return 0, errFull
	}
	return l.EventLog.Append(ctx, e)
}

// A server whose store takes no writes is not ready, though the store answers: a balancer would go on sending it
// requests that fail (SRV-6).
func TestReadyWhileWritesFail(t *testing.T) {
	for name, write := range map[string]func(w *world, e *Emitter[incident]) error{
		"emit": func(w *world, e *Emitter[incident]) error { return e.Emit(w.t.Context(), incident{ID: "i"}) },
		"subscribe": func(w *world, _ *Emitter[incident]) error {
			if _, err := call(w.Server, "ann", wire.MethodSubscribe, params(plain, secretA, "")); err != nil {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := &fullStore{Store: memory.New()}
			bubble(t, func(o *Options) { o.Store = st }, func(t *testing.T, w *world) {
				e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
				st.full.Store(true)
				for i := range maxFailedWrites {
					if err := w.Ready(t.Context()); err != nil {
						t.Errorf("after %d failed writes: %v", i, err)
					}
					if write(w, e) == nil {
						t.Error("a full store took a write")
					}
				}
				if err := w.Ready(t.Context()); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "does not take writes") {
					t.Errorf("while every write fails: %v", err)
				}
				st.full.Store(false)
				if err := write(w, e); err != nil {
					t.Error(err)
				}
				if err := w.Ready(t.Context()); err != nil {
					t.Errorf("after a write: %v", err)
				}
			})
		})
	}
}

// Without further writes the server is ready after a while: no write could show that the store works. The next one that
// fails makes it unready.
func TestReadyAfterFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fullStore{Store: memory.New()}
		s := newServer(t, Options{Store: st})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		st.full.Store(true)
		fail := func() {
			t.Helper()
			if err := e.Emit(t.Context(), incident{ID: "i"}); !errors.Is(err, errFull) {
				t.Errorf("got %v", err)
			}
		}
		for range maxFailedWrites {
			fail()
		}
		time.Sleep(failureTTL - time.Nanosecond)
		if err := s.Ready(t.Context()); !errors.Is(err, errFull) {
			t.Errorf("not long after the last write: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("long after the last write: %v", err)
		}
		fail()
		if err := s.Ready(t.Context()); !errors.Is(err, errFull) {
			t.Errorf("after the next write: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(failureTTL)
		if err := e.Emit(gone, incident{ID: "i"}); err == nil {
			t.Error("an emit of a caller that has gone succeeded")
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("a caller that has gone says nothing about the store: %v", err)
		}
	})
}

// The stores that come with the runtime answer Ping on a full disk: the appends show it.
func TestReadyOnAFullDisk(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (st store.Store, fill func()){
		"sqlite": func(t *testing.T) (store.Store, func()) {
			path := filepath.Join(t.TempDir(), "events.db")
			st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st, func() {
				db, err := sql.Open("sqlite", path)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER full BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'disk is full'); END`); err != nil {
					t.Fatal(err)
				}
			}
		},
		"postgres": func(t *testing.T) (store.Store, func()) {
			schema := pgtest.Schema(t)
			return openShared(t, schema, deaf), func() {
				pgtest.Exec(t, pgtest.URL(t),
					`CREATE FUNCTION `+schema+`.disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk is full' USING ERRCODE = '53100'; END $$`,
					`CREATE TRIGGER disk_full BEFORE INSERT ON `+schema+`.entries FOR EACH STATEMENT EXECUTE FUNCTION `+schema+`.disk_full()`)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, fill := open(t)
			s := newServer(t, Options{Store: st})
			e := register(t, s, "e", Hooks[filterArgs, incident]{})
			emit(t, e, incident{ID: "i"})
			fill()
			for range maxFailedWrites {
				if err := e.Emit(t.Context(), incident{ID: "i"}); err == nil || !strings.Contains(err.Error(), "disk is full") {
					t.Fatalf("got %v", err)
				}
			}
			if err := st.(store.Pinger).Ping(t.Context()); err != nil {
				t.Errorf("the store does not answer: %v", err)
			}
			if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "disk is full") {
				t.Errorf("Ready: %v", err)
			}
		})
	}
}
