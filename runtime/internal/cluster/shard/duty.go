package shard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Duty is recurring work that the owner of a shard performs in bounded steps.
type Duty struct {
	Step func(ctx context.Context, h engine.ShardFence) (Stepped, error)
	// Every is the pause after a step that leaves no more work. After a failure, the pause is at least one second.
	Every time.Duration
	// Rest is the pause between steps after there has been no work for restAfter. If it is 0, the pause is Every.
	Rest time.Duration
	// Name is the name of the duty in log messages.
	Name   string
	Logger *slog.Logger
}

// A Stepped is the result of a step. Found reports whether there was work, and More reports whether more work can be
// done immediately.
type Stepped struct{ Found, More bool }

const (
	// sequenceEvery is the interval between reads of the outbox. If there have been no occurrences for restAfter, the
	// interval is sequenceRest (REP-20).
	sequenceEvery = 20 * time.Millisecond
	sequenceRest  = 250 * time.Millisecond
	restAfter     = 10 * time.Second
	sequenceStep  = 512
	retainEvery   = time.Minute
	retainStep    = 1024
	failedPause   = time.Second
	failedTold    = time.Minute // how often a lasting failure is logged
)

// Sequencing returns a Duty that moves the outbox of a store to its logs. It calls check for each occurrence (see
// [engine.Outbox]) and told with the result of each step. While the outbox cannot be read, Oldest is how long an
// occurrence may have waited. The Duty must be used for only one ownership.
func Sequencing(s engine.Outbox, check func(context.Context, store.Outgoing) (fault, err error), told func(engine.Sequenced), logger *slog.Logger) Duty {
	looked, oldest := time.Now(), time.Duration(0) // when it was last read, and how long the oldest occurrence had waited then
	step := func(ctx context.Context, h engine.ShardFence) (Stepped, error) {
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

// Retaining returns a Duty that deletes entries from the logs of a store after their retention has ended.
func Retaining(s engine.Shared, logger *slog.Logger) Duty {
	step := func(ctx context.Context, h engine.ShardFence) (Stepped, error) {
		more, err := s.Retain(ctx, h, retainStep)
		return Stepped{more, more}, err
	}
	return Duty{Step: step, Every: retainEvery, Name: "deleting expired entries", Logger: logger}
}

// Run performs the duty until the ownership ends. [Options.Run] calls it for the duty's topic.
func (d Duty) Run(t *Ownership) {
	failing, told := false, time.Duration(0)
	clock := t.owner.o.Clock
	busy := clock.Monotonic() // when work was last found
	for t.Valid() {
		done, err := d.Step(t.Context(), t.ShardFence())
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
