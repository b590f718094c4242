package delivery

import "time"

// A phase is the progress of a subscription's end. It only increases.
type phase uint8

const (
	delivering phase = iota
	stopping         // no further attempts start: it is about to end
	ended            // only a terminated envelope may still be sent
	closed           // its reader is also closed
)

// An intake is the read state of a handle, which reads its log one turn at a time while it is woken. It does not
// depend on the engine, whose lock guards it.
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
	// retryRead is the pause after a failed read of the log. It doubles with each failure, at most maxStumbles
	// times.
	retryRead   = time.Second
	maxStumbles = 5
)

// wake records that there may be something to read. It returns false if that was known.
func (in *intake) wake() (news bool) {
	news = !in.woken
	in.woken = true
	return news
}

// wants reports whether a turn should read, now or at notUntil.
func (in *intake) wants() bool { return in.woken && !in.reading }

// idle reports whether the reader will wake the handle for more entries.
func (in *intake) idle() bool { return in.parked && !in.woken && !in.reading }

// unpark records that reading continues. It reports whether the reader was parked, and whether it was parked in the
// current turn.
func (in *intake) unpark() (parked, passed bool) {
	parked, passed = in.parked, in.parked && in.parkedIn == in.turn
	in.parked = false
	return parked, passed
}

// begin starts a read. Later wakes cause another read. It returns the turn, which the caller passes at the end of
// the read.
func (in *intake) begin() (turn int) {
	in.woken = false
	return in.turn
}

// outdated reports whether the handle was rewound since a read of that turn began. If so, it schedules another
// read.
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

// found ends a successful read. Without more, the reader must be parked.
func (in *intake) found(more bool) {
	in.stumbles = 0
	in.woken = in.woken || more
}

// park records the result of Reader.Park. If it is false, there is something to read.
func (in *intake) park(turn int, ok bool) {
	in.parked, in.parkedIn = ok, turn
	in.woken = in.woken || !ok
}

// rewind discards the results of reads that have begun.
func (in *intake) rewind() {
	in.turn++
	in.woken = true
}
