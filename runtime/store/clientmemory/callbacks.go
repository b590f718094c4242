package clientmemory

import (
	"context"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Callbacks is an in-memory [clientstore.CallbackStore]. The zero value is empty.
type Callbacks struct {
	mu   sync.Mutex
	keys map[string]clientstore.Callback
}

// Callback implements [clientstore.CallbackStore].
func (c *Callbacks) Callback(ctx context.Context, key string) (clientstore.Callback, bool, error) {
	if err := ctx.Err(); err != nil {
		return clientstore.Callback{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.keys[key]
	return copyCallback(found), ok, nil
}

// PutCallback implements [clientstore.CallbackStore].
func (c *Callbacks) PutCallback(ctx context.Context, key string, cb clientstore.Callback) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = map[string]clientstore.Callback{}
	}
	c.keys[key] = copyCallback(cb)
	return nil
}

// DeleteCallback implements [clientstore.CallbackStore].
func (c *Callbacks) DeleteCallback(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, key)
	return nil
}

func copyCallback(c clientstore.Callback) clientstore.Callback {
	c.Secrets, c.EventIDs = slices.Clone(c.Secrets), slices.Clone(c.EventIDs)
	return c
}
