// Package keylock provides mutual exclusion by key.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of locks, one for each key. A key uses memory only while it is locked or a goroutine is waiting for
// it.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]*lock
}

type lock struct {
	users int           // number of holders and waiters; guarded by Locks.mu
	token chan struct{} // capacity 1
}

// Lock locks the key. If ctx ends before the key is available, Lock returns the context's error.
func (l *Locks[K]) Lock(ctx context.Context, k K) (unlock func(), err error) {
	x := l.join(k)
	if err := ctx.Err(); err != nil {
		l.leave(k, x)
		return nil, err
	}
	select {
	case x.token <- struct{}{}:
		return func() { <-x.token; l.leave(k, x) }, nil
	case <-ctx.Done():
		l.leave(k, x)
		return nil, ctx.Err()
	}
}

// TryLock locks the key if that does not require waiting.
func (l *Locks[K]) TryLock(k K) (unlock func(), ok bool) {
	x := l.join(k)
	select {
	case x.token <- struct{}{}:
		return func() { <-x.token; l.leave(k, x) }, true
	default:
		l.leave(k, x)
		return nil, false
	}
}

// join returns the lock of the key. The caller must call leave when it no longer uses the lock.
func (l *Locks[K]) join(k K) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[K]*lock{}
	}
	x := l.held[k]
	if x == nil {
		x = &lock{token: make(chan struct{}, 1)}
		l.held[k] = x
	}
	x.users++
	return x
}

func (l *Locks[K]) leave(k K, x *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(l.held, k)
	}
}

// Len returns the number of keys that are locked or have waiters.
func (l *Locks[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}
