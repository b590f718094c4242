package server

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A turn is what follows one turn of a reader's loop.
type turn int

const (
	again turn = iota // there is more to do
	rest              // park, and wait for a signal or the time
	pause             // wait without parking: the source is not to be read before the time
	over              // the loop ends
)

// A loop is how every stream, follower and held poll reads: turn after turn, waiting in between. The
// subscriptions of webhooks are turned by package delivery in the same way.
type loop struct {
	source topic.Parker
	wake   topic.Wake      // the source's bell
	stop   <-chan struct{} // ends a wait, beside ctx; may be nil
}

// run takes turns until one is over. turn returns what follows and until when to wait at most. What
// has ended, ctx included, is turn's to notice.
func (l loop) run(ctx context.Context, turn func() (turn, time.Time)) {
	var timer *time.Timer // not before it waits: most polls do not
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		next, until := turn()
		switch next {
		case over:
			return
		case again:
			continue
		case rest:
			if !l.source.Park() {
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
		case <-l.stop:
		case <-l.wake:
		case <-timer.C:
		}
		l.source.Unpark()
	}
}
