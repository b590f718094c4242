package topic

import (
	"context"
	"time"
)

// A Turn tells a [Loop] how to continue after a call of turn.
type Turn int

// The ways to continue.
const (
	Again Turn = iota // there is more to do
	Rest              // park, and wait for a signal or the time
	Pause             // wait without parking: the source must not be read before the given time
	Over              // the loop ends
)

// A Loop is the read loop of streams, followers and held polls: it calls turn repeatedly and waits in between.
// Package delivery has a loop of the same kind for webhook subscriptions.
type Loop struct {
	Source Parker
	Wake   Wake            // the source's bell
	Stop   <-chan struct{} // ends a wait, in addition to ctx; may be nil
}

// Run calls turn until it returns Over. turn returns how to continue, and the latest time at which to stop waiting.
// Run does not check ctx between turns; turn must return Over when ctx ends.
func (l Loop) Run(ctx context.Context, turn func() (Turn, time.Time)) {
	var timer *time.Timer // created on the first wait; most polls never wait
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
		if timer == nil {
			timer = time.NewTimer(time.Until(until))
		} else {
			timer.Reset(time.Until(until))
		}
		select {
		case <-ctx.Done():
		case <-l.Stop:
		case <-l.Wake:
		case <-timer.C:
		}
		l.Source.Unpark()
	}
}
