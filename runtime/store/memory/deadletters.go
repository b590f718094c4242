package memory

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// PutDeadLetter implements [store.DeadLetterStore].
func (c *Cursors) PutDeadLetter(ctx context.Context, d store.DeadLetter, limit int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.letters.Put(d, limit)
	return err
}

// DeadLetters implements [store.DeadLetterStore].
func (c *Cursors) DeadLetters(ctx context.Context, after uint64, limit int) ([]store.DeadLetter, error) {
	return c.find(ctx, after, limit, func(store.DeadLetter) bool { return true })
}

// DueDeadLetters implements [store.DeadLetterStore].
func (c *Cursors) DueDeadLetters(ctx context.Context, key string, after uint64, limit int) ([]store.DeadLetter, error) {
	return c.find(ctx, after, limit, func(d store.DeadLetter) bool { return d.Due && d.Key == key })
}

func (c *Cursors) find(ctx context.Context, after uint64, limit int, match func(store.DeadLetter) bool) ([]store.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.After(after, limit, match), nil
}

// RetryDeadLetter implements [store.DeadLetterStore].
func (c *Cursors) RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.Retry(sequence), nil
}

// DeleteDeadLetter implements [store.DeadLetterStore].
func (c *Cursors) DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.Delete(sequence), nil
}
