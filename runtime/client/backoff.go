package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxWait bounds every wait that a server asks for: nextPollMs, Retry-After, retryAfterMs. Otherwise a server could
// silence a subscription for good.
const maxWait = time.Hour

// Backoff spaces attempts: the n-th attempt waits a random time between half and all of Min·2ⁿ, at most Max. While no
// server answers, and after a stream that had delivered events, the waits of the first 5 s are cut to 250 ms each:
// behind a load balancer another server may answer.
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

// Limits of the short pauses at the start of an outage.
const (
	briskPause = 250 * time.Millisecond // the longest such pause
	briskFor   = 5 * time.Second        // the longest sum of them
)

// pauses spaces the attempts of one operation until it succeeds. Short pauses subdivide the waits of Backoff, so that
// the later attempts keep their number and times.
type pauses struct {
	Backoff
	n      int
	waited time.Duration
	due    time.Duration // when Backoff would make the next attempt without short pauses, as a sum of pauses
}

func (p *pauses) next(brisk bool) time.Duration {
	if !brisk || p.waited >= p.due {
		p.due = p.waited + p.delay(p.n)
		p.n++
	}
	d := p.due - p.waited
	if brisk && p.waited < briskFor {
		d = min(d, briskPause/2+rand.N(briskPause/2))
	}
	p.waited += d
	return d
}

func (p *pauses) reset() { *p = pauses{Backoff: p.Backoff} }

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
