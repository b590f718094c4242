package client

import "time"

// minFrameGap is the minimum interval between frames. Frames that are closer together are considered to have arrived
// together.
const minFrameGap = 50 * time.Millisecond

// A heartbeatMonitor measures the interval between a stream's heartbeats and derives how long the stream may be silent.
// It considers only frames that were read on arrival, because heartbeats queue up if the application is slow.
type heartbeatMonitor struct {
	assumed time.Duration // the interval until one is measured, and the longest accepted
	last    time.Time     // the last heartbeat; zero if its arrival time is unknown
	beaten  bool          // a heartbeat has arrived
	pauses  int           // measured intervals
	longest time.Duration // the longest of them
	behind  bool          // frames may have arrived before they were read
}

// recordWait records how long the loop waited for a frame.
func (p *heartbeatMonitor) recordWait(waited time.Duration) {
	if waited >= minFrameGap {
		p.behind = false
	}
}

// recordHandling records how long the loop took to handle a frame.
func (p *heartbeatMonitor) recordHandling(took time.Duration) {
	if took >= minFrameGap {
		p.behind = true
	}
}

func (p *heartbeatMonitor) beat(now time.Time) {
	p.beaten = true
	if p.behind {
		p.last = time.Time{}
		return
	}
	if pause := now.Sub(p.last); !p.last.IsZero() && pause >= minFrameGap {
		p.pauses++
		p.longest = max(p.longest, pause)
	}
	p.last = now
}

// timeout returns how long a stream may be silent before it is considered dead. This is two intervals, or three if only
// one interval was measured, because that interval is too short if the first heartbeat was late.
func (p *heartbeatMonitor) timeout() time.Duration {
	interval := min(max(p.longest, time.Second), p.assumed)
	switch p.pauses {
	case 0:
		return 2 * p.assumed
	case 1:
		return min(3*interval, 2*p.assumed)
	}
	return 2 * interval
}
