package file

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Callback implements [store.CallbackStore].
func (c *Cursors) Callback(ctx context.Context, key string) (store.Callback, bool, error) {
	if err := ctx.Err(); err != nil {
		return store.Callback{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cb, ok := c.callbacks[key]
	return cb, ok, nil
}

// PutCallback implements [store.CallbackStore]. The secrets lie in the file as they are; only its
// owner may read it.
func (c *Cursors) PutCallback(ctx context.Context, key string, cb store.Callback) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.changeCallback(key, func() { c.callbacks[key] = cb })
}

// DeleteCallback implements [store.CallbackStore].
func (c *Cursors) DeleteCallback(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.changeCallback(key, func() { delete(c.callbacks, key) })
}

// changeCallback applies a change and writes the file, or leaves both as they were.
func (c *Cursors) changeCallback(key string, change func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, had := c.callbacks[key]
	change()
	if err := c.write(); err != nil {
		if had {
			c.callbacks[key] = old
		} else {
			delete(c.callbacks, key)
		}
		return fmt.Errorf("changing callback %q: %w", key, err)
	}
	return nil
}
