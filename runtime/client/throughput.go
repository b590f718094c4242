package client

import "time"

// instant separates frames: frames less than this apart count as having arrived together.
const instant = 50 * time.Millisecond

// A pulse measures the interval of a stream's heartbeats, and from it derives how long the stream may be silent. It
// counts only frames that were read as they arrived: behind a slow application heartbeats pile up.
type pulse struct {
	assumed time.Duration // the interval until one is measured, and the longest accepted
	last    time.Time     // the last heartbeat; zero if its arrival time is unknown
	beaten  bool          // a heartbeat has arrived
	pauses  int           // measured intervals
	longest time.Duration // the longest of them
	behind  bool          // frames may have arrived before they were read
}

// received records how long the loop waited for a frame.
func (p *pulse) received(waited time.Duration) {
	if waited >= instant {
		p.behind = false
	}
}

// handled records how long the loop spent on a frame.
func (p *pulse) handled(took time.Duration) {
	if took >= instant {
		p.behind = true
	}
}

func (p *pulse) beat(now time.Time) {
	p.beaten = true
	if p.behind {
		p.last = time.Time{}
		return
	}
	if pause := now.Sub(p.last); !p.last.IsZero() && pause >= instant {
		p.pauses++
		p.longest = max(p.longest, pause)
	}
	p.last = now
}

// patience returns how long a stream may be silent before it is considered dead: two intervals. A single measured
// interval may be too short by half if the first heartbeat was late, so it counts three times.
func (p *pulse) patience() time.Duration {
	interval := min(max(p.longest, time.Second), p.assumed)
	switch p.pauses {
	case 0:
		return 2 * p.assumed
	case 1:
		return min(3*interval, 2*p.assumed)
	}
	return 2 * interval
}
