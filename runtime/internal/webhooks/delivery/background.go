package delivery

import (
	"sync"
	"time"
)

// A periodicTask is a function that the engine calls periodically in the background. Its turns never overlap.
type periodicTask struct {
	e    *Engine
	do   func() (next time.Duration) // runs a turn and returns the longest time until the next one
	turn sync.Mutex                  // held during a turn

	// Guarded by the engine's lock.
	timer *time.Timer // nil for a chore that never runs
	at    time.Time   // when the next turn begins
	off   bool
}

// begin schedules the first turn.
func (c *periodicTask) begin(e *Engine, first time.Duration, do func() time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.e, c.do, c.at = e, do, time.Now().Add(first)
	c.timer = time.AfterFunc(first, c.run)
}

// advance reschedules the next turn if it would start later than the given duration from now. The caller must hold the
// engine's lock.
func (c *periodicTask) advance(within time.Duration) {
	if at := time.Now().Add(within); c.timer != nil && !c.off && at.Before(c.at) {
		c.at = at
		c.timer.Reset(within)
	}
}

// stop prevents further turns. The caller must hold the engine's lock.
func (c *periodicTask) stop() {
	c.off = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// wait waits for the current turn to finish.
func (c *periodicTask) wait() {
	c.turn.Lock()
	defer c.turn.Unlock()
}

// farFuture is a longer duration than all durations passed to advance.
const farFuture = 1000 * time.Hour

func (c *periodicTask) run() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.e.mu.Lock()
	off := c.off
	c.at = time.Now().Add(farFuture) // events during the turn can advance the next one
	c.e.mu.Unlock()
	if off {
		return
	}
	next := c.do()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.advance(next)
}
