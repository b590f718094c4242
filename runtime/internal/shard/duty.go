package shard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Duty is work of a shard that comes again and again: it does a bounded step under the hold and tells
// whether there is more to do at once.
type Duty struct {
	Step func(ctx context.Context, h engine.Hold) (more bool, err error)
	// Every is the pause after a step that left nothing; after a failure it is at least a second.
	Every time.Duration
	// Name is what logs call it.
	Name   string
	Logger *slog.Logger
}

const (
	// sequenceEvery is how often the outbox is looked at (REP-20).
	sequenceEvery = 20 * time.Millisecond
	sequenceStep  = 512
	retainEvery   = time.Minute
	retainStep    = 1024
	failedPause   = time.Second
)

// Sequencing moves the outbox of a store to its logs. check judges what is moved (see [engine.Outbox]), and
// rejected is told how many occurrences were put aside.
func Sequencing(s engine.Outbox, check func(context.Context, store.Outgoing) (fault, err error), rejected func(n int), logger *slog.Logger) Duty {
	step := func(ctx context.Context, h engine.Hold) (bool, error) {
		done, err := s.Sequence(ctx, h, sequenceStep, check)
		if done.Rejected > 0 {
			rejected(done.Rejected)
		}
		return done.More, err
	}
	return Duty{step, sequenceEvery, "moving the outbox", logger}
}

// Retaining deletes what the logs of a store no longer retain.
func Retaining(s engine.Shared, logger *slog.Logger) Duty {
	return Duty{func(ctx context.Context, h engine.Hold) (bool, error) { return s.Retain(ctx, h, retainStep) }, retainEvery, "deleting expired entries", logger}
}

// Run does the duty for as long as the tenure lasts; it is what [Options.Run] does for its topic.
func (d Duty) Run(t *Tenure) {
	failing := false
	for t.Valid() {
		more, err := d.Step(t.Context(), t.Hold())
		pause := d.Every
		switch {
		case t.Context().Err() != nil:
			return
		case errors.Is(err, engine.ErrFenced):
			t.Fenced()
			return
		case err != nil:
			pause = max(pause, failedPause)
			if !failing {
				d.Logger.Warn("mcp events: "+d.Name, "error", err)
			}
		case more:
			pause = 0
		}
		failing = err != nil
		ready := make(chan struct{})
		stop := t.owner.o.Clock.AfterFunc(pause, func() { close(ready) })
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
