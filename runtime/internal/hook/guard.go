// Package hook runs an author's callbacks. It puts their principal into the context, and converts panics to errors.
package hook

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Place identifies a hook of an event type, or of the server's options, which have no event.
type Place struct{ Hook, Event string }

// Run runs the author's hook. A panic becomes a [Panic].
func (at Place) Run(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{at, v, debug.Stack()}
		}
	}()
	return Mark(f())
}

// A Panic is the error of an author's hook that panicked.
type Panic struct {
	Place Place
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic in %s: %v", p.Place.Hook, p.Value) }

// An Error is an error of the extension that an author's hook returned. Its data goes on the wire unchanged, and no
// part of it becomes a reason.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Mark wraps err in an [Error] if it is an error of the extension.
func Mark(err error) error {
	if errors.As(err, new(*events.Error)) {
		return &Error{err}
	}
	return err
}
