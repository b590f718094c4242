package pulse

import (
	"math"
	"time"
)

// A histogram counts durations in classes. Each class is √2 times as wide as the one before: the first is below 1 ms,
// the last starts at 65.5 s.
type histogram [classes]uint32

const classes = 34

// bounds are the upper bounds of all classes but the last.
var bounds = func() (b [classes - 1]time.Duration) {
	for i := range b {
		b[i] = time.Duration(math.Round(float64(time.Millisecond) * math.Pow(2, float64(i)/2)))
	}
	return b
}()

// classOf returns the class of a duration.
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

// quantile returns the duration that the share q of the durations does not exceed. It interpolates within a class on a
// logarithmic scale: from 1 ms on it is accurate to a factor of √2. It is 0 without durations; 65.5 s stands for
// anything above.
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
	// P50, P95 and P99 are percentiles of the durations of timed attempts; 0 without any.
	P50, P95, P99 time.Duration
}

func figures(h *histogram, untimed, failures int64) Figures {
	return Figures{Attempts: h.count() + untimed, Failures: failures, P50: h.quantile(.5), P95: h.quantile(.95), P99: h.quantile(.99)}
}

// A Minute has the figures of one minute.
type Minute struct {
	At time.Time // when it began
	Figures
	// Behind is the lag, in log entries, of the slowest subscription at one moment of the minute; -1 if not sampled.
	Behind int64
}

// An Hour has the figures of the last sixty minutes.
type Hour struct {
	Figures
	// Behind is the latest known lag; -1 if unknown.
	Behind int64
	// Minutes are the minutes that were counted in whole or in part, the oldest first, without gaps. The last one is in
	// progress.
	Minutes []Minute
}

// hourOf reads the minutes of a ring up to now, as far as it has counted since then. If the clock was set back, minutes
// in its future are not shown until they come, and a minute that comes twice has both counts.
func hourOf(r *ring, since, now time.Time) Hour {
	last := number(now)
	first := max(last-Minutes+1, min(number(since), last))
	for i := range r {
		if at := r[i].at; at > last-Minutes && at < first { // the clock was set back
			first = at
		}
	}
	hour := Hour{Behind: -1, Minutes: make([]Minute, 0, last-first+1)}
	var all histogram
	var untimed, failures int64
	for m := first; m <= last; m++ {
		b := *r.of(m) // in a copy
		one := Minute{At: time.Unix(int64(m)*60, 0).UTC(), Figures: figures(&b.took, int64(b.untimed), int64(b.failures)), Behind: b.behind}
		if b.behind >= 0 {
			hour.Behind = b.behind
		}
		all.add(&b.took)
		untimed += int64(b.untimed)
		failures += int64(b.failures)
		hour.Minutes = append(hour.Minutes, one)
	}
	hour.Figures = figures(&all, untimed, failures)
	return hour
}
