package delivery

import "time"

// A phase is a stage in the life of a subscription. It never decreases.
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
	turn     uint32 // counts rewinds: results of reads of an earlier turn are dropped
	parkedIn uint32 // the turn of the last Park
}

const (
	// retryRead is the delay after the first failed read of the log. Each further failure doubles it, up to maxStumbles
	// times.
	retryRead   = time.Second
	maxStumbles = 5
)

// requestRead schedules a read, because the log might contain new entries. It returns false if a read is already
// scheduled.
func (in *intake) requestRead() (news bool) {
	news = !in.woken
	in.woken = true
	return news
}

// shouldRead reports whether a turn should read, now or at notUntil.
func (in *intake) shouldRead() bool { return in.woken && !in.reading }

// isIdle reports whether the handle is waiting for the reader to wake it.
func (in *intake) isIdle() bool { return in.parked && !in.woken && !in.reading }

// recordUnpark records that the reader is no longer parked. It reports whether the reader was parked, and whether it
// was parked in the current turn.
func (in *intake) recordUnpark() (parked, passed bool) {
	parked, passed = in.parked, in.parked && in.parkedIn == in.turn
	in.parked = false
	return parked, passed
}

// beginRead starts a read. A wakeup during the read causes another read. It returns the turn, which the caller passes
// to outdated and park.
func (in *intake) beginRead() (turn uint32) {
	in.woken = false
	return in.turn
}

// isOutdated reports whether the handle was rewound since the given turn. If so, it schedules another read.
func (in *intake) isOutdated(turn uint32) bool {
	if in.turn == turn {
		return false
	}
	in.woken = true
	return true
}

// recordFailure schedules a retry of the read. It reports whether this is the first of several consecutive failures.
func (in *intake) recordFailure(now moment) (first bool) {
	in.woken, in.notUntil = true, now.plus(retryRead<<in.stumbles)
	first = in.stumbles == 0
	in.stumbles = min(in.stumbles+1, maxStumbles)
	return first
}

// recordSuccess records that a read was successful. If more is false, the caller must park the reader.
func (in *intake) recordSuccess(more bool) {
	in.stumbles = 0
	in.woken = in.woken || more
}

// recordPark records the result of a call to Reader.Park. If ok is false, there is more to read.
func (in *intake) recordPark(turn uint32, ok bool) {
	in.parked, in.parkedIn = ok, turn
	in.woken = in.woken || !ok
}

// rewind discards the results of reads in progress and schedules another read.
func (in *intake) rewind() {
	in.turn++
	in.woken = true
}
