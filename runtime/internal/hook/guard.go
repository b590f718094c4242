// Package hook runs an author's callbacks: it puts the principal that they run for into their context, and turns their
// panics into errors.
package hook

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Place is a hook of an event type, or of the server's options, which have no event.
type Place struct{ Hook, Event string }

// Run runs the author's hook at the place. A panic becomes a [Panic].
func (at Place) Run(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{at, v, debug.Stack()}
		}
	}()
	return Mark(f())
}

// A Panic is a panic of an author's hook as an error.
type Panic struct {
	Place Place
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic in %s: %v", p.Place.Hook, p.Value) }

// An Error is an error of the extension that an author's hook returned. Its data goes on the wire
// as the author made it, and nothing of it becomes a reason.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Mark marks err when it is an error of the extension.
func Mark(err error) error {
	if errors.As(err, new(*events.Error)) {
		return &Error{err}
	}
	return err
}
