package clientmemory

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// PutDeadLetter implements [clientstore.DeadLetterStore].
func (c *Cursors) PutDeadLetter(ctx context.Context, d clientstore.DeadLetter, limit int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.letters.Put(d, limit)
	return err
}

// DeadLetters implements [clientstore.DeadLetterStore].
func (c *Cursors) DeadLetters(ctx context.Context, after uint64, limit int) ([]clientstore.DeadLetter, error) {
	return c.find(ctx, after, limit, func(clientstore.DeadLetter) bool { return true })
}

// DueDeadLetters implements [clientstore.DeadLetterStore].
func (c *Cursors) DueDeadLetters(ctx context.Context, key string, after uint64, limit int) ([]clientstore.DeadLetter, error) {
	return c.find(ctx, after, limit, func(d clientstore.DeadLetter) bool { return d.Due && d.Key == key })
}

func (c *Cursors) find(ctx context.Context, after uint64, limit int, match func(clientstore.DeadLetter) bool) ([]clientstore.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.After(after, limit, match), nil
}

// RetryDeadLetter implements [clientstore.DeadLetterStore].
func (c *Cursors) RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.Retry(sequence), nil
}

// DeleteDeadLetter implements [clientstore.DeadLetterStore].
func (c *Cursors) DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.Delete(sequence), nil
}
