// Package pollingtest provides event types for testing package polling and the packages that use it. It has no
// compatibility guarantee.
package pollingtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A Type is an event type for tests. It implements [polling.Type].
type Type struct {
	*eventtypetest.Type
	// Held is the number of waiting polls, and Failed the number of polls that returned an error.
	Held, Failed atomic.Int64
	// Passed is the position that the last poll of the log reached.
	Passed atomic.Uint64
	// Closing ends the wait of all polls when it is closed.
	Closing chan struct{}
}

// New returns an event type whose occurrences are emitted, found by a check, or both. Its log retains all entries
// unless kept specifies otherwise.
func New(t testing.TB, name string, emits, checks bool, kept ...topic.Kept) *Type {
	t.Helper()
	o := eventtypetest.Options{Emits: emits, Checks: checks}
	if len(kept) > 0 {
		o.Kept = kept[0]
	}
	return &Type{Type: eventtypetest.New(t, name, o), Closing: make(chan struct{})}
}

// Request returns a poll with the given arguments and maximum wait. It is limited to 50 occurrences.
func (e *Type) Request(arguments string, wait time.Duration) (*polling.Request, error) {
	a, err := e.Arguments(arguments)
	if err != nil {
		return nil, err
	}
	return &polling.Request{Type: e, Access: &access.Gate{Heard: func() bool { return true }}, Sub: eventtype.Identify(wire.ModePoll, "", "", a), Args: a, Head: e.Head(),
		Limit: 50, MaxPage: 1 << 20, Scan: 1000, Wait: wait, Closing: e.Closing, NextPoll: time.Second}, nil
}

// Hold and Polled implement [polling.Type].
func (e *Type) Hold(n int) { e.Held.Add(int64(n)) }

func (e *Type) Polled(_ context.Context, _ *polling.Request, a *polling.Answer, err error) {
	if err != nil {
		e.Failed.Add(1)
	} else if a.FromLog {
		e.Passed.Store(uint64(a.Passed))
	}
}
