package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An action is done once in 10 minutes; a second call waits for the first one and gets its outcome. What
// failed can be tried again.
func TestOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		a := newServer(t, Options{Store: st}).Admin()
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
		if got, err := newServer(t, Options{Store: st}).Admin().Once(t.Context(), "k", []byte("r"), do); err != nil || string(got) != "outcome" || n != 2 {
			t.Errorf("after a restart: %q %v, done %d times", got, err, n)
		}
	})
}

// A call waits for the first one of its key, and learns when that one does not end. A store that remembers
// nothing leaves it to the process.
func TestOnceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newServer(t, Options{Store: unpinged{&pinged{}}}).Admin()
		if _, ok := a.(*admin).s.actions().(store.Store); ok {
			t.Fatal("its store remembers actions")
		}
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
		if _, err := a.Once(t.Context(), "dead", nil, do); !errors.Is(err, operator.ErrUnderWay) || time.Since(began) > onceWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(never)
		<-gone
	})
}
