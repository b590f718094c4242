package pulse

import (
	"math"
	"time"
)

// A histogram counts durations by classes, each √2 times as wide as the one before: the first one is below 1 ms, the last
// one is from 65.5 s.
type histogram [classes]uint32

const classes = 34

// bounds are the upper bounds of the classes but the last.
var bounds = func() (b [classes - 1]time.Duration) {
	for i := range b {
		b[i] = time.Duration(math.Round(float64(time.Millisecond) * math.Pow(2, float64(i)/2)))
	}
	return b
}()

// classOf is the class of a duration.
func classOf(d time.Duration) int {
	low, high := 0, len(bounds)
	for low < high {
		if mid := (low + high) / 2; d < bounds[mid] {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

func (h *histogram) add(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

func (h *histogram) count() (n int64) {
	for _, c := range h {
		n += int64(c)
	}
	return n
}

// quantile is the time within which the share q of the durations is, by their even spread over the ratios of a class: it is
// off by a factor of √2 at most from 1 ms on. It is 0 where there are none, and 65.5 s stands for what is above.
func (h *histogram) quantile(q float64) time.Duration {
	rank, below := q*float64(h.count()), 0.0
	for i, n := range h {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		within := (rank - below) / float64(n)
		switch i {
		case 0:
			return time.Duration(within * float64(bounds[0]))
		case len(bounds):
			return bounds[len(bounds)-1]
		}
		return time.Duration(float64(bounds[i-1]) * math.Pow(math.Sqrt2, within))
	}
	return 0
}

// Figures count the results of attempts.
type Figures struct {
	Attempts, Failures int64
	// P50, P95 and P99 are the times within which that share of the attempts ended; 0 without attempts.
	P50, P95, P99 time.Duration
}

func figures(h *histogram, failures int64) Figures {
	return Figures{Attempts: h.count(), Failures: failures, P50: h.quantile(.5), P95: h.quantile(.95), P99: h.quantile(.99)}
}

// A Minute has the figures of one minute.
type Minute struct {
	At time.Time // when it began
	Figures
	// Behind is by how many entries the slowest subscription was behind its log, at one moment of the minute; -1 where
	// nobody looked.
	Behind int64
}

// An Hour is the last sixty minutes.
type Hour struct {
	Figures
	// Behind is the last one that is known; -1 for none.
	Behind int64
	// Minutes are those that were counted in whole or in part, the oldest first, without holes; the last one is under way.
	Minutes []Minute
}

// hourOf reads the minutes of a ring up to now, as far as it was kept since then. What a clock that was put back has left
// in its future is not shown before that comes, and a minute that comes twice counts both.
func hourOf(r *ring, since, now time.Time) Hour {
	last := number(now)
	first := max(last-Minutes+1, min(number(since), last))
	for i := range r {
		if at := r[i].at; at > last-Minutes && at < first { // the clock was put back
			first = at
		}
	}
	hour := Hour{Behind: -1, Minutes: make([]Minute, 0, last-first+1)}
	var all histogram
	var failures int64
	for m := first; m <= last; m++ {
		b := *r.of(m) // of a copy
		one := Minute{At: time.Unix(int64(m)*60, 0).UTC(), Figures: figures(&b.took, int64(b.failures)), Behind: b.behind}
		if b.behind >= 0 {
			hour.Behind = b.behind
		}
		all.add(&b.took)
		failures += int64(b.failures)
		hour.Minutes = append(hour.Minutes, one)
	}
	hour.Figures = figures(&all, failures)
	return hour
}
