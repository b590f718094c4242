package delivery

import "time"

// A phase is how far the end of a subscription has come. It only grows.
type phase uint8

const (
	delivering phase = iota
	stopping         // no attempt begins any more: it is about to end
	ended            // nothing but a terminated envelope is sent any more
	closed           // its reader is closed, too
)

// An intake is how a handle reads its log: one turn at a time, while it is woken. It is a value without
// any knowledge of the engine, whose lock guards it.
type intake struct {
	woken    bool   // there may be something to read
	reading  bool   // a turn is at it
	parked   bool   // the reader wakes the handle when there is more
	stumbles uint8  // reads that failed one after another
	notUntil moment // no read before: the log failed
	turn     int    // counts rewinds: results of reads of an earlier turn are dropped
	parkedIn int    // the turn of the last Park
}

const (
	// retryRead is how long a subscription waits after its log failed; it doubles with each
	// failure, maxStumbles times at most.
	retryRead   = time.Second
	maxStumbles = 5
)

// wake says that there may be something to read; false when that is known.
func (in *intake) wake() (news bool) {
	news = !in.woken
	in.woken = true
	return news
}

// wants reports whether a turn should read, now or at notUntil.
func (in *intake) wants() bool { return in.woken && !in.reading }

// idle reports whether the reader will say when there is more.
func (in *intake) idle() bool { return in.parked && !in.woken && !in.reading }

// unpark takes in that reading goes on. It reports whether the reader is parked, and whether what it
// passed since then was passed in this turn.
func (in *intake) unpark() (parked, passed bool) {
	parked, passed = in.parked, in.parked && in.parkedIn == in.turn
	in.parked = false
	return parked, passed
}

// begin starts a read: what wakes the handle from here on is another reason to read. It returns the turn,
// which the end of the read names.
func (in *intake) begin() (turn int) {
	in.woken = false
	return in.turn
}

// outdated reports whether the handle was rewound since a read of that turn began; then it is to be read
// again.
func (in *intake) outdated(turn int) bool {
	if in.turn == turn {
		return false
	}
	in.woken = true
	return true
}

// failed has the log read again later. It reports whether this is the first failure in a row.
func (in *intake) failed(now moment) (first bool) {
	in.woken, in.notUntil = true, now.plus(retryRead<<in.stumbles)
	first = in.stumbles == 0
	in.stumbles = min(in.stumbles+1, maxStumbles)
	return first
}

// found ends a read that brought something, or nothing. Without more the reader is to be parked.
func (in *intake) found(more bool) {
	in.stumbles = 0
	in.woken = in.woken || more
}

// park takes in whether the reader has agreed to wait; else there is something to read already.
func (in *intake) park(turn int, ok bool) {
	in.parked, in.parkedIn = ok, turn
	in.woken = in.woken || !ok
}

// rewind makes what was read until now count for nothing.
func (in *intake) rewind() {
	in.turn++
	in.woken = true
}
