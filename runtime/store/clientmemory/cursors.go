// Package clientmemory stores the state of a client in memory. It is for tests, and for programs that may skip missed
// events after a restart. Start with [NewCursors].
package clientmemory

import (
	"context"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/letters"
)

// Cursors is an in-memory [clientstore.ConsumerStore].
type Cursors struct {
	mu      sync.Mutex
	keys    map[string]clientstore.Saved
	letters letters.List
}

// NewCursors returns an empty store.
func NewCursors() *Cursors { return &Cursors{keys: map[string]clientstore.Saved{}} }

// Load implements [clientstore.CursorStore].
func (c *Cursors) Load(ctx context.Context, key string) (clientstore.Saved, bool, error) {
	if err := ctx.Err(); err != nil {
		return clientstore.Saved{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.keys[key]
	s.EventIDs = slices.Clone(s.EventIDs)
	return s, ok, nil
}

// Save implements [clientstore.CursorStore].
func (c *Cursors) Save(ctx context.Context, key string, s clientstore.Saved) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.EventIDs = slices.Clone(s.EventIDs)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[key] = s
	return nil
}

// Delete implements [clientstore.CursorStore].
func (c *Cursors) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, key)
	return nil
}
