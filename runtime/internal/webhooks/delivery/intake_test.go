package delivery

import (
	"testing"
	"time"
)

// Whatever happens while a handle reads, it reads again when there may be more, and only then (HOOK-4).
func TestIntake(t *testing.T) {
	const now = moment(7)
	type steps = func(in *intake)
	fresh := intake{woken: true}
	// read is a whole turn that meanwhile is interrupted by something.
	read := func(meanwhile steps, end func(in *intake, turn uint32)) steps {
		return func(in *intake) {
			in.reading = true
			in.recordUnpark()
			turn := in.beginRead()
			meanwhile(in)
			if !in.isOutdated(turn) {
				end(in, turn)
			}
			in.reading = false
		}
	}
	nothing := func(*intake) {}
	all := func(in *intake, turn uint32) { in.recordSuccess(false); in.recordPark(turn, true) }
	for _, tt := range []struct {
		name        string
		do          steps
		wants, idle bool
	}{
		{"at first", nothing, true, false},
		{"all is read", read(nothing, all), false, true},
		{"there is more", read(nothing, func(in *intake, _ uint32) { in.recordSuccess(true) }), true, false},
		{"there is more when it parks", read(nothing, func(in *intake, turn uint32) { in.recordSuccess(false); in.recordPark(turn, false) }), true, false},
		{"woken while it reads", read(func(in *intake) { in.requestRead() }, all), true, false},
		{"woken between the read and the park", read(nothing, func(in *intake, turn uint32) { in.recordSuccess(false); in.requestRead(); in.recordPark(turn, true) }), true, false},
		{"rewound while it reads", read(func(in *intake) { in.rewind() }, all), true, false},
		{"rewound when it is parked", func(in *intake) { read(nothing, all)(in); in.rewind() }, true, false},
		{"woken when it is parked", func(in *intake) { read(nothing, all)(in); in.requestRead() }, true, false},
		{"read again after a wake", func(in *intake) { read(nothing, all)(in); in.requestRead(); read(nothing, all)(in) }, false, true},
		{"the log fails", read(nothing, func(in *intake, _ uint32) { in.recordFailure(now) }), true, false},
		{"while it reads", func(in *intake) { in.reading = true }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := fresh
			tt.do(&in)
			if in.shouldRead() != tt.wants || in.isIdle() != tt.idle {
				t.Errorf("wants to read: %v, want %v; idle: %v, want %v (%+v)", in.shouldRead(), tt.wants, in.isIdle(), tt.idle, in)
			}
		})
	}
}

// A log that fails is asked less and less often, at least every 32 s, and at once after it has answered. The first
// failure in a row is told.
func TestIntakeOfAFailingLog(t *testing.T) {
	const now = moment(7)
	in := intake{woken: true}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
		if first := in.recordFailure(now); first != (i == 0) {
			t.Errorf("failure %d is the first: %v", i, first)
		}
		if got := time.Duration(in.notUntil - now); got != want*time.Second {
			t.Errorf("failure %d: again after %v, want %v s", i, got, int(want))
		}
	}
	in.recordSuccess(false)
	if !in.recordFailure(now) || in.notUntil != now.plus(time.Second) {
		t.Error("a failure after a success is not a first one")
	}
}

// What a parked reader passes counts only for the turn in which it was parked.
func TestIntakePasses(t *testing.T) {
	in := intake{woken: true}
	in.recordPark(in.beginRead(), true)
	if parked, passed := in.recordUnpark(); !parked || !passed {
		t.Error(parked, passed)
	}
	in.recordPark(in.beginRead(), true)
	in.rewind()
	if parked, passed := in.recordUnpark(); !parked || passed {
		t.Error("rewound", parked, passed)
	}
	if parked, passed := in.recordUnpark(); parked || passed {
		t.Error("not parked", parked, passed)
	}
	if in.requestRead() {
		t.Error("a rewound handle is woken already")
	}
}
