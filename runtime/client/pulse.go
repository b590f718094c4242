package client

import "time"

// instant is what takes no time: frames that come closer together arrived together.
const instant = 50 * time.Millisecond

// A pulse learns at which interval a stream's heartbeats come, and so how long its silence may last. It
// counts only what was received when it came: behind a slow application heartbeats pile up.
type pulse struct {
	assumed time.Duration // the interval while nothing is known, and the longest that is believed
	last    time.Time     // of a heartbeat; zero when when it came is not known
	beaten  bool          // there was a heartbeat
	pauses  int           // between them, so far
	longest time.Duration // of them
	behind  bool          // what is received may have come earlier
}

// received takes in how long the stream was waited for.
func (p *pulse) received(waited time.Duration) {
	if waited >= instant {
		p.behind = false
	}
}

// handled takes in how long a frame kept the loop busy.
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

// patience is how long a stream without any frame is believed to live: two intervals. One pause alone may be
// short by half, when the first heartbeat came late, so it counts for more.
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
