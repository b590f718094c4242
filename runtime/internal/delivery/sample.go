package delivery

import (
	"math/rand/v2"
	"time"
)

// startSampling starts to record the lag of the subscriptions in the engine's pulse once per minute. It samples at a
// random time in the middle third of each minute. Therefore, a late timer still fires in the same minute, and different
// engines do not sample simultaneously.
func (e *Engine) startSampling() {
	at := time.Minute/3 + rand.N(time.Minute/3)
	until := func() time.Duration {
		now := e.now()
		next := now.Truncate(time.Minute).Add(at)
		if !next.After(now) {
			next = next.Add(time.Minute)
		}
		return next.Sub(now)
	}
	e.sampler.begin(e, until(), func() time.Duration {
		s := e.census()
		e.pulse.Behind(s.lag, s.hosts)
		return until()
	})
}
