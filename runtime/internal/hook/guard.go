// Package hook calls an author's hooks. It adds the principal to their context and converts panics to errors.
package hook

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Place identifies a hook of an event type or of the server's options. For hooks of the server's options, Event is
// empty.
type Place struct{ Hook, Event string }

// Run calls f, which calls the author's hook. It converts a panic to a [Panic] error.
func (at Place) Run(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{at, v, debug.Stack()}
		}
	}()
	return Mark(f())
}

// A Panic is the error for a panic in an author's hook.
type Panic struct {
	Place Place
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic in %s: %v", p.Place.Hook, p.Value) }

// An Error wraps an [events.Error] that was returned by an author's hook. The data of the wrapped error is sent
// unchanged and is not interpreted as a reason.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Mark wraps err in an [Error] if it is an [events.Error].
func Mark(err error) error {
	if errors.As(err, new(*events.Error)) {
		return &Error{err}
	}
	return err
}
