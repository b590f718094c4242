package topic

import (
	"context"
	"time"
)

// A Turn is the action that a [Loop] takes after a call to turn.
type Turn int

// Actions of a loop.
const (
	Again Turn = iota // call turn again immediately
	Rest              // park and wait for a signal or the deadline
	Pause             // wait without parking: the source must not be read before the given time
	Over              // end the loop
)

// A Loop is the read loop of streams, followers and long polls. It calls turn repeatedly and waits between calls.
// Package delivery has a similar loop for webhook subscriptions.
type Loop struct {
	Source Parker
	Wake   Wake            // the source's bell
	Stop   <-chan struct{} // also ends a wait, like ctx; may be nil
}

// Run calls turn until turn returns Over. The function turn returns the next action and the deadline of the wait. Run
// does not check ctx between turns, so turn must return Over after ctx is done.
func (l Loop) Run(ctx context.Context, turn func() (Turn, time.Time)) {
	var timer *time.Timer // rings the bell; created on the first wait, because most polls never wait
	var set time.Time
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		next, until := turn()
		switch next {
		case Over:
			return
		case Again:
			continue
		case Rest:
			if !l.Source.Park() {
				continue
			}
		}
		if wait := time.Until(until); timer == nil {
			timer = time.AfterFunc(wait, l.Wake.Ring)
		} else if wait <= 0 || !until.Equal(set) {
			timer.Reset(wait)
		}
		set = until
		select {
		case <-ctx.Done():
		case <-l.Stop:
		case <-l.Wake:
		}
		l.Source.Unpark()
	}
}
