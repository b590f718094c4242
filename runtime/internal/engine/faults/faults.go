// Package faults wraps an engine and injects failures, for tests: calls that do not reach the store, lost answers,
// delayed copies of commits, late notifications of logs, a skewed clock, and crashes. Start with [Wrap].
//
// The package makes no promise of compatibility.
package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrUnsent is returned by a call that did not reach the store.
	ErrUnsent = errors.New("faults: the call did not reach the store")
	// ErrNoAnswer is returned by a call that reads, if its answer is lost. A call that writes returns
	// [store.ErrUncertain].
	ErrNoAnswer = errors.New("faults: no answer")
	// ErrCrashed is returned by each call after a crash.
	ErrCrashed = errors.New("faults: the process has crashed")
)

// A Fault is a failure of one call.
type Fault int

const (
	// None lets the call succeed.
	None Fault = iota
	// Unsent fails the call, which has no effect; the caller gets [ErrUnsent].
	Unsent
	// Lost loses the call on its way to the store, and so its answer.
	Lost
	// Unanswered lets the call take effect and loses the answer.
	Unanswered
	// Late loses the answer of a Commit, and delays the commit until [Engine.Deliver]. Any other call is Lost.
	Late
	// Again lets a Commit succeed, and keeps a copy that arrives at [Engine.Deliver]. Any other call just succeeds.
	Again
	// CrashBefore crashes the process before the call takes effect, CrashAfter after it.
	CrashBefore
	CrashAfter
)

// A Call is a call of an engine or one of its logs.
type Call struct {
	// N is the number of earlier calls of the Engine.
	N int
	// Op is the name of the method, followed by the name of the log if it is a method of a log or OpenLog, such as
	// "Append incidents".
	Op string
	// Commit is the commit of a Commit; nil otherwise.
	Commit *store.Commit

	writes bool
}

// A Plan decides about calls. Its functions are called from the goroutines that make the calls, and may use any engine
// and the methods of [Engine] that are not those of [engine.Engine]. Nil functions do nothing.
type Plan struct {
	// Before is called before each call.
	Before func(Call) Fault
	// After is called before each call returns, with its error.
	After func(Call, error)
}

// Random returns a Before that fails calls with a probability of rate. It never crashes the process. The fault of a
// call depends on the seed, the number of the call and whether it is a Commit.
func Random(seed uint64, rate float64) func(Call) Fault {
	return func(c Call) Fault {
		r := rand.New(rand.NewPCG(seed, uint64(c.N)))
		if r.Float64() >= rate {
			return None
		}
		if c.Commit == nil {
			return []Fault{Unsent, Lost, Unanswered}[r.IntN(3)]
		}
		return []Fault{Unsent, Lost, Unanswered, Late, Again}[r.IntN(5)]
	}
}

// An Engine adds faults to the [engine.Engine] of a process.
type Engine struct {
	inner engine.Engine
	plan  Plan

	mu      sync.Mutex
	calls   int
	crashed bool
	late    []*store.Commit
	skew    time.Duration
	latest  time.Time                // answer of Clock
	lag     map[string]time.Duration // by log; "" is that of the other ones
	logs    map[string]*log          // as opened last
}

var _ engine.Engine = (*Engine)(nil)

// Wrap returns e with the faults of a plan.
func Wrap(e engine.Engine, p Plan) *Engine {
	return &Engine{inner: e, plan: p, lag: map[string]time.Duration{}, logs: map[string]*log{}}
}

// Calls returns the number of calls so far.
func (e *Engine) Calls() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// Skew moves the clock of the process by d. A clock that is moved back stands still until it has caught up.
func (e *Engine) Skew(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skew += d
}

// Crash ends the process: no call reaches the store any more, and its logs do not call Appended.
func (e *Engine) Crash() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.crashed = true
}

func (e *Engine) hasCrashed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.crashed
}

// Deliver applies the delayed commits in the order of their calls, also after a crash, and returns how many of them the
// store accepted.
func (e *Engine) Deliver(ctx context.Context) (accepted int) {
	e.mu.Lock()
	late := e.late
	e.late = nil
	e.mu.Unlock()
	for _, c := range late {
		if _, err := e.inner.Commit(ctx, c); err == nil {
			accepted++
		}
	}
	return accepted
}

// delay keeps a copy of a commit for Deliver.
func (e *Engine) delay(c *store.Commit) {
	kept := *c
	kept.Guards, kept.Writes, kept.Tell = slices.Clone(c.Guards), slices.Clone(c.Writes), slices.Clone(c.Tell)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = append(e.late, &kept)
}

// do makes a call with its fault.
func do[T any](e *Engine, c Call, f func() (T, error)) (T, error) {
	e.mu.Lock()
	c.N = e.calls
	e.calls++
	e.mu.Unlock()
	v, err := try(e, c, f)
	if err != nil {
		var none T
		v = none
	}
	if e.plan.After != nil {
		e.plan.After(c, err)
	}
	return v, err
}

func try[T any](e *Engine, c Call, f func() (T, error)) (v T, err error) {
	if e.hasCrashed() {
		return v, ErrCrashed
	}
	fault := None
	if e.plan.Before != nil {
		fault = e.plan.Before(c)
	}
	switch fault {
	case Unsent:
		return v, fmt.Errorf("%s: %w", c.Op, ErrUnsent)
	case Lost:
		return v, c.noAnswer()
	case Unanswered:
		f()
		return v, c.noAnswer()
	case Late:
		if c.Commit != nil {
			e.delay(c.Commit)
		}
		return v, c.noAnswer()
	case Again:
		if c.Commit != nil {
			e.delay(c.Commit)
		}
	case CrashBefore:
		e.Crash()
	case CrashAfter:
		e.Crash()
		f()
	}
	if e.hasCrashed() { // by its fault, or by Before
		return v, ErrCrashed
	}
	v, err = f()
	if e.hasCrashed() { // while it was under way
		return v, ErrCrashed
	}
	return v, err
}

func (c *Call) noAnswer() error {
	if c.writes {
		return fmt.Errorf("%s: %w", c.Op, store.ErrUncertain)
	}
	return fmt.Errorf("%s: %w", c.Op, ErrNoAnswer)
}
