package server

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A pinged store cannot be reached while it is away.
type pinged struct {
	*memory.Store
	away atomic.Bool
}

var errAway = errors.New("the store is away")

func (s *pinged) Ping(ctx context.Context) error {
	if s.away.Load() {
		return errAway
	}
	return s.Store.Ping(ctx)
}

// An unpinged store cannot be asked itself; its logs can.
type unpinged struct{ store.Store }

type mutableLog struct {
	store.EventLog
	away *atomic.Bool
}

func (s unpinged) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return mutableLog{l, &s.Store.(*pinged).away}, err
}

func (l mutableLog) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	if l.away.Load() {
		return 0, 0, errAway
	}
	return l.EventLog.Bounds(ctx)
}

// A store that is away makes a server unready and not unhealthy; shutting down too.
func TestReady(t *testing.T) {
	for _, bare := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &pinged{Store: memory.New()}
			o := Options{Store: st}
			if bare {
				o.Store = unpinged{st}
			}
			s := newServer(t, o)
			register(t, s, "e", Hooks[filterArgs, incident]{})
			if err := errors.Join(s.Healthy(t.Context()), s.Ready(t.Context())); err != nil {
				t.Fatal(err)
			}
			st.away.Store(true)
			if err := s.Ready(t.Context()); !errors.Is(err, errAway) {
				t.Errorf("away: %v", err)
			}
			if err := s.Healthy(t.Context()); err != nil {
				t.Errorf("a store that is away is not cured by another process: %v", err)
			}
			st.away.Store(false)
			if err := s.Ready(t.Context()); err != nil {
				t.Errorf("back again: %v", err)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Ready(t.Context()); !errors.Is(err, events.ErrClosed) {
				t.Errorf("after Shutdown: %v", err)
			}
			if err := s.Healthy(t.Context()); err != nil {
				t.Errorf("after Shutdown: %v", err)
			}
		})
	}
}

// A process that hangs is unhealthy, however often it is asked, and healthy again when it goes on. One
// look waits for what hangs, not one for each question.
func TestHealthyOfAHang(t *testing.T) {
	s := newServer(t, Options{Operators: operators.New()})
	register(t, s, "e", Hooks[filterArgs, incident]{})
	et := s.types["e"]
	et.mu.Lock()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := s.Healthy(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it hangs: %v", err)
		}
		if err := s.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it hangs and is ready: %v", err)
		}
		cancel()
	}
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := bytes.Count(stacks, []byte("(*Server).checkLocks.func1(")); n != 1 {
		t.Errorf("%d goroutines wait", n)
	}
	et.mu.Unlock()
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

// A server is not ready until every stored subscription was tried once; one that fails is tried again
// without holding anything up (SUB-11).
func TestReadyWhenRestored(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		sub := w.subscribe("alice", params(plain, secretA, `,"ttlMs":36000000`))
		w.restart(nil)
		goOn := make(chan struct{})
		register(t, w.Server, "e", Hooks[filterArgs, incident]{OnSubscribe: func(ctx context.Context, _ Subscription, _ *filterArgs) error {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return errors.New("the author's database is away")
		}})
		synctest.Wait()
		if err := w.Ready(t.Context()); err == nil {
			t.Error("it is ready while OnSubscribe has not answered")
		}
		close(goOn)
		synctest.Wait()
		if err := w.Ready(t.Context()); err != nil {
			t.Errorf("the subscription was tried: %v", err)
		}
		if err := w.Admin().End(t.Context(), sub.ID, nil); err != nil {
			t.Errorf("End of one that cannot be restored: %v", err)
		}
		if _, err := w.Admin().Get(t.Context(), "sub_x"); !errors.Is(err, events.ErrNotFound) {
			t.Error(err)
		}
	})
}

// REP-3: a server that was told of nothing for a while asks before it calls itself ready, and is not when
// the store does not answer.
func TestReadyAsksForOthersAppends(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := newMember(t, schema, deaf, Options{}), newMember(t, schema, deaf, Options{})
	e := register(t, a.Server, "e", Hooks[filterArgs, incident]{})
	register(t, b.Server, "e", Hooks[filterArgs, incident]{})
	emit(t, e, incident{ID: "i1"})
	topic := b.types["e"].topic
	if n := topic.Head(); n != 0 {
		t.Fatalf("head %d before it was asked", n)
	}
	if err := topic.Caught(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if n := topic.Head(); n != 1 {
		t.Errorf("head %d after it was asked", n)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("its store is closed: %v", err)
	}
	if err := topic.Caught(t.Context(), 0); err == nil {
		t.Error("a store that is closed was caught up with")
	}
}
