package client

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// maxWait bounds every wait that a server requests with nextPollMs, Retry-After or retryAfterMs. Without it, a server
// could silence a subscription permanently.
const maxWait = time.Hour

// Backoff configures exponential backoff. The n-th wait, counted from 0, is a random time between half of Min·2ⁿ and
// Min·2ⁿ, but at most Max. While no server answers, and after a stream that delivered events, each wait in the first 5
// s is at most 250 ms, because another server behind a load balancer may answer.
type Backoff struct {
	// Min is the upper bound of the first wait; 0 means 1 s.
	Min time.Duration
	// Max is the upper bound of all waits; 0 means 1 min.
	Max time.Duration
}

func (b *Backoff) setDefaults() {
	b.Min = cmp.Or(max(b.Min, 0), time.Second)
	b.Max = cmp.Or(max(b.Max, 0), time.Minute)
}

func (b Backoff) delay(n int) time.Duration {
	d := b.Max
	if n < 30 && b.Min<<n < b.Max && b.Min<<n > 0 {
		d = b.Min << n
	}
	return d/2 + rand.N(d/2+1)
}

// Limits for the short pauses at the start of an outage.
const (
	briskPause = 250 * time.Millisecond // the longest such pause
	briskFor   = 5 * time.Second        // the longest sum of them
)

// A backoffState computes the waits between the attempts of one operation until it succeeds. Short pauses split a
// regular wait into parts, so they do not change the times of later attempts.
type backoffState struct {
	Backoff
	n      int
	waited time.Duration
	due    time.Duration // when Backoff would make the next attempt without short pauses, as a sum of pauses
}

func (p *backoffState) next(brisk bool) time.Duration {
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

func (p *backoffState) reset() { *p = backoffState{Backoff: p.Backoff} }

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
