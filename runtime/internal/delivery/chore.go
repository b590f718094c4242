package delivery

import (
	"sync"
	"time"
)

// A chore is what the engine does now and then in the background, one turn at a time.
type chore struct {
	e    *Engine
	do   func() (next time.Duration) // a turn, and how long after it the next one begins at the latest
	turn sync.Mutex                  // held during one

	// Under the engine's lock.
	timer *time.Timer // nil for a chore that is never done
	at    time.Time   // when the next turn begins
	off   bool
}

// begin sets the time of the first turn.
func (c *chore) begin(e *Engine, first time.Duration, do func() time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.e, c.do, c.at = e, do, time.Now().Add(first)
	c.timer = time.AfterFunc(first, c.run)
}

// hasten makes sure that a turn comes soon; the caller holds the engine's lock.
func (c *chore) hasten(within time.Duration) {
	if at := time.Now().Add(within); c.timer != nil && !c.off && at.Before(c.at) {
		c.at = at
		c.timer.Reset(within)
	}
}

// stop lets no turn begin any more; the caller holds the engine's lock.
func (c *chore) stop() {
	c.off = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// wait returns when no turn is under way.
func (c *chore) wait() {
	c.turn.Lock()
	defer c.turn.Unlock()
}

// later is after all that hastens a chore.
const later = 1000 * time.Hour

func (c *chore) run() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.e.mu.Lock()
	off := c.off
	c.at = time.Now().Add(later) // what happens during the turn hastens the next one
	c.e.mu.Unlock()
	if off {
		return
	}
	next := c.do()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.hasten(next)
}
