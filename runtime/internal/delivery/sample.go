package delivery

import (
	"math/rand/v2"
	"time"
)

// sampling tells the engine's pulse once a minute how far subscriptions are behind: in the middle third of a minute, so
// that a timer that is somewhat late samples it still, and each engine at another moment than others and than what
// happens by the half minute.
func (e *Engine) sampling() {
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
