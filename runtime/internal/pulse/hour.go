package pulse

import (
	"math"
	"time"
)

// A histogram counts durations in classes. The bounds grow by a factor of √2. The first class contains durations below
// 1 ms, and the last class starts at 65.5 s.
type histogram [classes]uint32

const classes = 34

// bounds contains the upper bounds of all classes except the last.
var bounds = func() (b [classes - 1]time.Duration) {
	for i := range b {
		b[i] = time.Duration(math.Round(float64(time.Millisecond) * math.Pow(2, float64(i)/2)))
	}
	return b
}()

// classOf returns the index of the class that contains d.
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

// quantile returns an estimate of the q-quantile of the durations. It interpolates logarithmically within a class, so
// from 1 ms upward the result is accurate to within a factor of √2. It returns 0 if the histogram is empty. The result
// is never greater than 65.5 s.
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

// Figures summarizes the results of attempts.
type Figures struct {
	Attempts, Failures int64
	// P50, P95 and P99 are percentiles of the durations of timed attempts. They are 0 if none of the attempts were
	// timed.
	P50, P95, P99 time.Duration
}

func figures(h *histogram, untimed, failures int64) Figures {
	return Figures{Attempts: h.count() + untimed, Failures: failures, P50: h.quantile(.5), P95: h.quantile(.95), P99: h.quantile(.99)}
}

// A Minute contains the figures for one minute.
type Minute struct {
	At time.Time // when it began
	Figures
	// Behind is the lag of the slowest subscription in log entries, sampled once during the minute. It is -1 if the lag
	// was not sampled.
	Behind int64
}

// An Hour contains the figures for the last sixty minutes.
type Hour struct {
	Figures
	// Behind is the last known lag, or -1 if unknown.
	Behind int64
	// Minutes contains the figures for each minute, oldest first and without gaps. The first minute can be incomplete.
	// The last one is the current minute.
	Minutes []Minute
}

// hourOf returns the figures of a ring that has counted attempts since the given time. If the clock was set back,
// minutes in the future are omitted until the clock reaches them. A minute that occurs twice includes the counts of
// both.
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
		b := *r.bucket(m) // in a copy
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
