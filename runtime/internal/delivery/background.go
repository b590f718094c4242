package delivery

import (
	"sync"
	"time"
)

// A chore is a periodic background job of the engine. Only one turn runs at a time.
type chore struct {
	e    *Engine
	do   func() (next time.Duration) // runs a turn and returns the longest time until the next one
	turn sync.Mutex                  // held during a turn

	// Guarded by the engine's lock.
	timer *time.Timer // nil for a chore that never runs
	at    time.Time   // when the next turn begins
	off   bool
}

// begin schedules the first turn.
func (c *chore) begin(e *Engine, first time.Duration, do func() time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.e, c.do, c.at = e, do, time.Now().Add(first)
	c.timer = time.AfterFunc(first, c.run)
}

// hasten makes the next turn start within the given time. The caller holds the engine's lock.
func (c *chore) hasten(within time.Duration) {
	if at := time.Now().Add(within); c.timer != nil && !c.off && at.Before(c.at) {
		c.at = at
		c.timer.Reset(within)
	}
}

// stop prevents further turns. The caller holds the engine's lock.
func (c *chore) stop() {
	c.off = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// wait waits for a running turn.
func (c *chore) wait() {
	c.turn.Lock()
	defer c.turn.Unlock()
}

// later is longer than any time passed to hasten.
const later = 1000 * time.Hour

func (c *chore) run() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.e.mu.Lock()
	off := c.off
	c.at = time.Now().Add(later) // events during the turn can hasten the next one
	c.e.mu.Unlock()
	if off {
		return
	}
	next := c.do()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.hasten(next)
}
