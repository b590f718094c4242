package delivery

import "time"

// A phase is a stage in the shutdown of a subscription. It only increases.
type phase uint8

const (
	delivering phase = iota
	stopping         // no further attempts start: it is about to end
	ended            // only a terminated envelope may still be sent
	closed           // its reader is also closed
)

// An intake is the read state of a handle. At most one turn reads the log at a time. The engine's lock guards the
// intake.
type intake struct {
	woken    bool   // there may be something to read
	reading  bool   // a turn is reading
	parked   bool   // the reader wakes the handle when there is more
	stumbles uint8  // consecutive failed reads
	notUntil moment // earliest read after a failure of the log
	turn     int    // counts rewinds: results of reads of an earlier turn are dropped
	parkedIn int    // the turn of the last Park
}

const (
	// retryRead is the delay after the first failed read of the log. Each further failure doubles it, up to maxStumbles
	// times.
	retryRead   = time.Second
	maxStumbles = 5
)

// wake records that there may be something to read. It returns false if the handle was already awake.
func (in *intake) wake() (news bool) {
	news = !in.woken
	in.woken = true
	return news
}

// shouldRead reports whether a turn should read, either now or at notUntil.
func (in *intake) shouldRead() bool { return in.woken && !in.reading }

// idle reports whether the reader will wake the handle for more entries.
func (in *intake) idle() bool { return in.parked && !in.woken && !in.reading }

// unpark records that reading continues. It reports whether the reader was parked, and whether this happened in the
// current turn.
func (in *intake) unpark() (parked, passed bool) {
	parked, passed = in.parked, in.parked && in.parkedIn == in.turn
	in.parked = false
	return parked, passed
}

// begin starts a read. Later wakes cause another read. It returns the turn, which the caller passes to outdated and
// park.
func (in *intake) begin() (turn int) {
	in.woken = false
	return in.turn
}

// outdated reports whether the handle was rewound since the given turn. If so, it schedules another read.
func (in *intake) outdated(turn int) bool {
	if in.turn == turn {
		return false
	}
	in.woken = true
	return true
}

// failed schedules a retry of the read. It reports whether this is the first failure in a row.
func (in *intake) failed(now moment) (first bool) {
	in.woken, in.notUntil = true, now.plus(retryRead<<in.stumbles)
	first = in.stumbles == 0
	in.stumbles = min(in.stumbles+1, maxStumbles)
	return first
}

// found records a successful read. If more is false, the caller must park the reader.
func (in *intake) found(more bool) {
	in.stumbles = 0
	in.woken = in.woken || more
}

// park records the result of Reader.Park. If ok is false, there is more to read.
func (in *intake) park(turn int, ok bool) {
	in.parked, in.parkedIn = ok, turn
	in.woken = in.woken || !ok
}

// rewind discards the results of reads in progress and schedules another read.
func (in *intake) rewind() {
	in.turn++
	in.woken = true
}
