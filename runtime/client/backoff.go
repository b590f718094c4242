package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxWait bounds every wait that a server asks for: nextPollMs, Retry-After, retryAfterMs. A server that
// asks for more must not silence a subscription for good.
const maxWait = time.Hour

// Backoff spaces attempts: the n-th waits a random time between half and all of Min·2ⁿ, at most
// Max.
type Backoff struct {
	// Min is the first wait; 0 means 1 s.
	Min time.Duration
	// Max bounds the waits; 0 means 1 min.
	Max time.Duration
}

func (b Backoff) delay(n int) time.Duration {
	d := b.Max
	if n < 30 && b.Min<<n < b.Max && b.Min<<n > 0 {
		d = b.Min << n
	}
	return d/2 + rand.N(d/2+1)
}

// wait sleeps the n-th delay, or atLeast when that is longer.
func (b Backoff) wait(ctx context.Context, n int, atLeast time.Duration) error {
	return sleep(ctx, max(b.delay(n), atLeast))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
