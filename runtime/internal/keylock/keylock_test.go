package keylock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// One holder at a time, others by their key; who gives up waiting leaves nothing behind.
func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks[string]
		var holders, most atomic.Int64
		for range 20 {
			go func() {
				unlock, err := l.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), holders.Add(1)))
				time.Sleep(time.Second)
				holders.Add(-1)
				unlock()
			}()
		}
		synctest.Wait()
		other, err := l.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := l.Lock(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waited too long: %v", err)
		}
		if _, err := l.Lock(short, "free"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("whose context is over: %v", err)
		}
		other()
		time.Sleep(30 * time.Second)
		if most.Load() != 1 || l.Len() != 0 {
			t.Errorf("%d at once, %d keys are kept", most.Load(), l.Len())
		}
	})
}

// Who does not wait gets the key only if nobody holds it, and leaves nothing behind.
func TestTryLock(t *testing.T) {
	var l Locks[string]
	unlock, ok := l.TryLock("a")
	if !ok {
		t.Fatal("a free key is held")
	}
	if _, ok := l.TryLock("a"); ok {
		t.Error("a held key is free")
	}
	unlock()
	if unlock, err := l.Lock(t.Context(), "a"); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
	if n := l.Len(); n != 0 {
		t.Errorf("%d keys are kept", n)
	}
}
