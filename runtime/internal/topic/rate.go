package topic

import (
	"math"
	"time"
)

// A decayingRate is an exponentially decaying count per minute. An event that is one minute old has weight 1/e.
type decayingRate struct {
	weight float64
	at     time.Time
}

func (r *decayingRate) add(now time.Time, n int) { r.weight, r.at = r.perMinute(now)+float64(n), now }

func (r *decayingRate) perMinute(now time.Time) float64 {
	if r.weight == 0 {
		return 0
	}
	return r.weight * math.Exp(-now.Sub(r.at).Minutes())
}

// Appended returns the number of entries appended since the topic was opened. The number includes entries from other
// processes that this process has seen.
func (t *Topic) Appended() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// PerMinute returns the number of entries appended per minute, as an exponentially decaying average.
func (t *Topic) PerMinute() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rate.perMinute(time.Now())
}
