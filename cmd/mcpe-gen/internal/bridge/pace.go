package bridge

import (
	"context"
	"sync"
	"time"
)

// A pace limits how many actions happen per minute.
type pace struct {
	every time.Duration
	most  int

	mu   sync.Mutex
	next time.Time // when the full rate is available
}

func newPace(perMinute int) *pace {
	return &pace{every: time.Minute / time.Duration(perMinute), most: perMinute}
}

// wait waits until the next action is allowed. It returns false if ctx is done first.
func (p *pace) wait(ctx context.Context) bool {
	for {
		p.mu.Lock()
		now := time.Now()
		if p.next.Before(now) {
			p.next = now
		}
		wait := p.next.Add(p.every).Sub(now) - time.Duration(p.most)*p.every
		if wait <= 0 {
			p.next = p.next.Add(p.every)
		}
		p.mu.Unlock()
		if wait <= 0 {
			return true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// giveBack undoes a take.
func (p *pace) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = p.next.Add(-p.every)
}
