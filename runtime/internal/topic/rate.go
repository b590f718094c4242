package topic

import (
	"math"
	"time"
)

// A rate is an exponentially decaying count per minute: an event that is a minute old counts 1/e.
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

// Appended returns the number of entries that became visible since the topic was opened, including entries of other
// processes.
func (t *Topic) Appended() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// PerMinute returns the rate per minute at which entries become visible, averaged over the last minute.
func (t *Topic) PerMinute() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rate.perMinute(time.Now())
}
