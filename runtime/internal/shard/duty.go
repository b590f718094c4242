package shard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Duty is work of a shard that comes again and again, in bounded steps under the hold.
type Duty struct {
	Step func(ctx context.Context, h engine.Hold) (Stepped, error)
	// Every is the pause after a step that left nothing; after a failure it is at least a second.
	Every time.Duration
	// Rest is the pause once nothing was found for restAfter; 0 for no other than Every.
	Rest time.Duration
	// Name is what logs call it.
	Name   string
	Logger *slog.Logger
}

// A Stepped is the result of a step: it found something to do, and there is more to do at once.
type Stepped struct{ Found, More bool }

const (
	// sequenceEvery is how often the outbox is looked at, and sequenceRest how often where nothing has come for
	// restAfter (REP-20).
	sequenceEvery = 20 * time.Millisecond
	sequenceRest  = 250 * time.Millisecond
	restAfter     = 10 * time.Second
	sequenceStep  = 512
	retainEvery   = time.Minute
	retainStep    = 1024
	failedPause   = time.Second
	failedTold    = time.Minute // how often a failure that lasts is told of
)

// Sequencing moves the outbox of a store to its logs. check judges what is moved (see [engine.Outbox]), and told
// hears what each step came to. While the outbox cannot be looked at, Oldest is for how long something may have waited.
// The duty is one tenure's.
func Sequencing(s engine.Outbox, check func(context.Context, store.Outgoing) (fault, err error), told func(engine.Sequenced), logger *slog.Logger) Duty {
	looked, oldest := time.Now(), time.Duration(0) // when it was looked at last, and for how long something had waited then
	step := func(ctx context.Context, h engine.Hold) (Stepped, error) {
		done, err := s.Sequence(ctx, h, sequenceStep, check)
		if err == nil || done.Oldest > 0 {
			looked, oldest = time.Now(), done.Oldest
		} else {
			done.Oldest = oldest + time.Since(looked)
		}
		told(done)
		return Stepped{done.Found > 0, done.More}, err
	}
	return Duty{Step: step, Every: sequenceEvery, Rest: sequenceRest, Name: "moving the outbox", Logger: logger}
}

// Retaining deletes what the logs of a store no longer retain.
func Retaining(s engine.Shared, logger *slog.Logger) Duty {
	step := func(ctx context.Context, h engine.Hold) (Stepped, error) {
		more, err := s.Retain(ctx, h, retainStep)
		return Stepped{more, more}, err
	}
	return Duty{Step: step, Every: retainEvery, Name: "deleting expired entries", Logger: logger}
}

// Run does the duty for as long as the tenure lasts; it is what [Options.Run] does for its topic.
func (d Duty) Run(t *Tenure) {
	failing, told := false, time.Duration(0)
	clock := t.owner.o.Clock
	busy := clock.Monotonic() // when something was found
	for t.Valid() {
		done, err := d.Step(t.Context(), t.Hold())
		pause, now := d.Every, clock.Monotonic()
		if done.Found {
			busy = now
		}
		switch {
		case t.Context().Err() != nil:
			return
		case errors.Is(err, engine.ErrFenced):
			t.Fenced()
			return
		case err != nil:
			pause = max(pause, failedPause)
			if !failing || now-told >= failedTold {
				told = now
				d.Logger.Warn("mcp events: "+d.Name, "error", err)
			}
		case done.More:
			pause = 0
		case d.Rest > 0 && now-busy >= restAfter:
			pause = d.Rest
		}
		failing = err != nil
		ready := make(chan struct{})
		stop := clock.AfterFunc(pause, func() { close(ready) })
		select {
		case <-t.Draining():
			stop()
			return
		case <-t.Context().Done():
			stop()
			return
		case <-ready:
		}
	}
}
