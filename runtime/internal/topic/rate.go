package topic

import (
	"math"
	"time"
)

// A rate is how many there were in the last minute, as an average that forgets: what was a minute ago
// counts 1/e.
type rate struct {
	weight float64
	at     time.Time
}

func (r *rate) add(now time.Time, n int) { r.weight, r.at = r.perMinute(now)+float64(n), now }

func (r *rate) perMinute(now time.Time) float64 {
	if r.weight == 0 {
		return 0
	}
	return r.weight * math.Exp(-now.Sub(r.at).Minutes())
}

// Appended is how many entries became visible here since the topic was opened, those of other processes included.
func (t *Topic) Appended() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// PerMinute is the rate at which entries become visible, as an average of the last minute.
func (t *Topic) PerMinute() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rate.perMinute(time.Now())
}
