package delivery

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A sampler tells the engine's pulse once a minute how far subscriptions are behind.
type sampler struct {
	step sync.Mutex // held during a look

	// at is when in a minute it looks: in the middle third, so that a timer that is somewhat late samples it still, and
	// each engine at another moment than others and than what happens by the half minute.
	at time.Duration

	// Under the engine's lock.
	timer *time.Timer
	off   bool
}

func (s *sampler) begin(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.at = time.Minute/3 + rand.N(time.Minute/3)
	s.timer = time.AfterFunc(s.until(e.now()), e.sample)
}

func (s *sampler) stop() {
	s.off = true
	s.timer.Stop()
}

// wait returns when no look is under way.
func (s *sampler) wait() {
	s.step.Lock()
	defer s.step.Unlock()
}

// until is the time until the next look.
func (s *sampler) until(now time.Time) time.Duration {
	at := now.Truncate(time.Minute).Add(s.at)
	if !at.After(now) {
		at = at.Add(time.Minute)
	}
	return at.Sub(now)
}

func (e *Engine) sample() {
	e.sampler.step.Lock()
	defer e.sampler.step.Unlock()
	e.mu.Lock()
	off := e.sampler.off
	e.mu.Unlock()
	if off {
		return
	}
	s := e.census()
	e.pulse.Behind(s.lag, s.hosts)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.sampler.off {
		e.sampler.timer.Reset(e.sampler.until(e.now()))
	}
}
