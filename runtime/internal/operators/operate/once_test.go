package operate_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// SRV-8: an action is done once in 10 minutes; a second call gets the outcome of the first one, also after a restart.
// What failed can be tried again.
func TestSRV8Once(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	must(t, err)
	defer db.Close()
	for name, st := range map[string]store.Store{"memory": memory.New(), "sqlite": db} {
		t.Run(name, func(t *testing.T) {
			a := newBed(t, setup{store: st})
			n := 0
			do := func() ([]byte, error) { n++; return []byte("outcome"), nil }
			for range 3 {
				if got, err := a.Once(t.Context(), "k", []byte("r"), do); err != nil || string(got) != "outcome" || n != 1 {
					t.Errorf("%q %v, done %d times", got, err, n)
				}
			}
			if _, err := a.Once(t.Context(), "k", []byte("another"), do); !errors.Is(err, operator.ErrKeyReused) || n != 1 {
				t.Errorf("%v, done %d times", err, n)
			}
			if _, err := a.Once(t.Context(), "failing", nil, func() ([]byte, error) { return nil, errTest }); !errors.Is(err, errTest) {
				t.Error(err)
			}
			if _, err := a.Once(t.Context(), "failing", nil, do); err != nil || n != 2 {
				t.Errorf("after a failure: %v, done %d times", err, n)
			}
			if got, err := newBed(t, setup{store: st}).Once(t.Context(), "k", []byte("r"), do); err != nil || string(got) != "outcome" || n != 2 {
				t.Errorf("after a restart: %q %v, done %d times", got, err, n)
			}
		})
	}
}

// forgetful stores remember no actions.
type forgetful struct{ store.Store }

// SRV-8: a call waits for the first one of its key, and learns when that one does not end. A store that remembers
// nothing leaves it to the process.
func TestSRV8OnceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBed(t, setup{without: true, store: forgetful{memory.New()}})
		var n atomic.Int32
		goOn := make(chan struct{})
		do := func() ([]byte, error) { n.Add(1); <-goOn; return []byte("x"), nil }
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if got, err := a.Once(t.Context(), "k", nil, do); err != nil || string(got) != "x" {
					t.Errorf("%q %v", got, err)
				}
			})
		}
		time.Sleep(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Once(ctx, "k", nil, do); !errors.Is(err, operator.ErrUnderWay) {
			t.Error(err)
		}
		close(goOn)
		wg.Wait()
		if n.Load() != 1 {
			t.Errorf("done %d times", n.Load())
		}
		never := make(chan struct{})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			a.Once(context.Background(), "dead", nil, func() ([]byte, error) { <-never; return nil, nil })
		}()
		synctest.Wait()
		began := time.Now()
		if _, err := a.Once(t.Context(), "dead", nil, do); !errors.Is(err, operator.ErrUnderWay) || time.Since(began) > operate.OnceWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(never)
		<-gone
	})
}

// failingActions cannot be remembered, or what comes of them.
type failingActions struct {
	*memory.Store
	claim error
}

func (s failingActions) ClaimAction(ctx context.Context, a engine.Action) (engine.Action, bool, error) {
	if s.claim != nil {
		return a, false, s.claim
	}
	return s.Store.ClaimAction(ctx, a)
}

func (s failingActions) FinishAction(context.Context, string, []byte) error { return errTest }
func (s failingActions) ForgetAction(context.Context, string) error         { return errTest }

// SRV-8: an action that cannot be remembered is not begun; what a finished one came to is told, whether it can be
// remembered or not.
func TestSRV8OnceStoreFails(t *testing.T) {
	a := newBed(t, setup{without: true, store: failingActions{memory.New(), errTest}})
	_, err := a.Once(t.Context(), "k", nil, func() ([]byte, error) { t.Error("done"); return nil, nil })
	if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "server: storing an operator's action: ") {
		t.Error(err)
	}
	a = newBed(t, setup{without: true, store: failingActions{Store: memory.New()}})
	if got, err := a.Once(t.Context(), "k", nil, func() ([]byte, error) { return []byte("x"), nil }); err != nil || string(got) != "x" {
		t.Errorf("%q %v", got, err)
	}
	wrong := errors.New("wrong")
	if _, err := a.Once(t.Context(), "failing", nil, func() ([]byte, error) { return nil, wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	if got := a.log(); !strings.Contains(got, "remembering what an operator's action came to") || !strings.Contains(got, "forgetting an operator's action that failed") {
		t.Errorf("logged: %s", got)
	}
}
