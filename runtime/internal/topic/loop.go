package topic

import (
	"context"
	"time"
)

// A Turn is what follows one turn of a reader's loop.
type Turn int

// What may follow a turn.
const (
	Again Turn = iota // there is more to do
	Rest              // park, and wait for a signal or the time
	Pause             // wait without parking: the source is not to be read before the time
	Over              // the loop ends
)

// A Loop is how every stream, follower and held poll reads: turn after turn, waiting in between. The
// subscriptions of webhooks are turned by package delivery in the same way.
type Loop struct {
	Source Parker
	Wake   Wake            // the source's bell
	Stop   <-chan struct{} // ends a wait, beside ctx; may be nil
}

// Run takes turns until one is over. turn returns what follows and until when to wait at most. What
// has ended, ctx included, is turn's to notice.
func (l Loop) Run(ctx context.Context, turn func() (Turn, time.Time)) {
	var timer *time.Timer // not before it waits: most polls do not
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
