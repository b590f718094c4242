// Package sharedtest has a store for tests of what is refused on a store that processes share. The package
// makes no promise of compatibility.
package sharedtest

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A Store says that other processes use it; its cluster cannot be reached, and of all else it has logs
// alone.
type Store struct{ store.Shared }

// Join implements [store.Leases].
func (Store) Join(context.Context, string, time.Duration, map[string]string) (store.Lease, error) {
	return store.Lease{}, errors.New("no database")
}

// OpenLog implements [store.Store].
func (Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := memory.New().OpenLog(ctx, name, o)
	return log{l}, err
}

// A log is one that nobody else appends to.
type log struct{ store.EventLog }

// CatchUp implements [store.SharedLog].
func (l log) CatchUp(ctx context.Context, _ store.Position) (store.Position, error) {
	_, head, err := l.Bounds(ctx)
	return head, err
}

// Seen implements [store.SharedLog].
func (log) Seen() time.Time { return time.Now() }
