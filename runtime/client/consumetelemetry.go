package client

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Outcomes of attempts.
const (
	outcomeHandled = "handled"
	outcomeRetried = "retried" // failed, will be retried
	outcomeDead    = "dead"    // failed, became a dead letter
)

// Categories of problems.
const (
	problemGap         = "gap"
	problemRecoverable = "recoverable"
	problemPayload     = "payload"
	problemCommit      = "commit"
	problemFull        = "dead_letters_full"
	problemUnavailable = "unavailable"
	problemPanic       = "panic"
)

// observedKinds are the kinds that observe reports.
var observedKinds = []telemetry.Kind{telemetry.HandlingInFlight, telemetry.HandlingLag}

// observe reports the current values of the consumer (CON-7).
func (k *consumer) observe(report func(telemetry.Series, float64)) {
	for name, c := range k.census() {
		report(telemetry.Series{Kind: telemetry.HandlingInFlight, Type: name}, float64(c.open))
		report(telemetry.Series{Kind: telemetry.HandlingLag, Type: name}, c.lag.Seconds())
	}
}

// A backlog holds the observed values for one event type.
type backlog struct {
	open int64
	lag  time.Duration
}

func (k *consumer) census() map[string]backlog {
	all := map[string]backlog{}
	now := time.Now()
	for _, f := range k.flows {
		c := all[f.name]
		if s := f.sub.Load(); s != nil {
			open, oldest := s.ledger.unsettled()
			if c.open += int64(open); open > 0 {
				c.lag = max(c.lag, now.Sub(oldest))
			}
		}
		all[f.name] = c
	}
	return all
}

func (k *consumer) countTry(j *job, outcome string) {
	k.o.Telemetry.Record(context.Background(), telemetry.Series{Kind: telemetry.HandlingAttempts, Type: j.f.name, Outcome: outcome}, 1)
}

func (k *consumer) countProblem(f *flow, kind string) {
	k.o.Telemetry.Record(context.Background(), telemetry.Series{Kind: telemetry.ConsumeProblems, Type: f.name, Failure: kind}, 1)
}

// problemType returns the category of a problem.
func problemType(err error) string {
	switch {
	case errors.As(err, new(*GapError)):
		return problemGap
	case errors.As(err, new(*RecoverableError)):
		return problemRecoverable
	case errors.As(err, new(*PayloadError)):
		return problemPayload
	case errors.As(err, new(*CommitError)):
		return problemCommit
	}
	return problemUnavailable
}

// handlerFailure returns the category of a handler's error, or an empty string for nil.
func handlerFailure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*panicError)):
		return problemPanic
	case errors.As(err, new(*PayloadError)):
		return problemPayload
	}
	return telemetry.FailureOf(err)
}
