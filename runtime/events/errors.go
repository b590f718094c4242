package events

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// An Error is an error of the extension, of one of the kinds that package wire lists. Servers
// return it from hooks and checks; clients get it from calls and iterators. Compare with errors.Is against
// ErrNotFound and its siblings, or with errors.As for the data.
type Error struct {
	// Kind is the error's name, independent of the code family on the wire (D2).
	Kind wire.Kind
	// Data is the error's data member as JSON, or nil.
	Data json.RawMessage
	// Code is the code as received; 0 on an error made here.
	Code int64
	// Message is the message as received; the kind's name when empty.
	Message string
}

// Sentinels for errors.Is; they match any Error of their kind.
var (
	ErrInvalidParams     = &Error{Kind: wire.InvalidParams}
	ErrNotFound          = &Error{Kind: wire.NotFound}
	ErrForbidden         = &Error{Kind: wire.Forbidden}
	ErrResourceExhausted = &Error{Kind: wire.ResourceExhausted}
	ErrUnsupported       = &Error{Kind: wire.Unsupported}
	ErrUpstream          = &Error{Kind: wire.UpstreamError}
)

// Errors of Emit.
var (
	// ErrClosed is returned by Emit after Shutdown.
	ErrClosed = errors.New("events: server is shut down")
	// ErrTooLarge is returned by Emit for a payload above the type's limit (HOOK-1).
	ErrTooLarge = errors.New("events: payload too large")
	// ErrInvalidPayload is matched by errors of Emit whose payload breaks its schema (OCC-4).
	ErrInvalidPayload = errors.New("events: payload breaks payloadSchema")
	// ErrIDReused is matched by errors of Emit under an eventId that the log holds for the same
	// targets with other data (OCC-5); nothing is emitted.
	ErrIDReused = errors.New("events: eventId was used for other data")
)

// Error gives the kind's name and the data.
func (e *Error) Error() string {
	msg := e.Message
	if msg == "" {
		msg = e.Kind.String()
	}
	if len(e.Data) > 0 {
		return fmt.Sprintf("%s %s", msg, e.Data)
	}
	return msg
}

// Is reports whether target is an Error of the same kind.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

// NewError makes an error of kind with data encoded as JSON; nil data is left out.
func NewError(kind wire.Kind, data any) *Error {
	e := &Error{Kind: kind}
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			return &Error{Kind: wire.Internal}
		}
		e.Data = b
	}
	return e
}

// Forbidden refuses a caller (AUTH-1). An empty reason leaves data out.
func Forbidden(reason string) *Error {
	if reason == "" {
		return NewError(wire.Forbidden, nil)
	}
	return NewError(wire.Forbidden, map[string]string{"reason": reason})
}

// Upstream reports a failing upstream with a reason that may be shown to subscribers (PUSH-5).
func Upstream(reason string) *Error {
	if reason == "" {
		return NewError(wire.UpstreamError, nil)
	}
	return NewError(wire.UpstreamError, map[string]string{"reason": reason})
}

// A FieldError is one entry of the errors in an InvalidParams error's data: a JSON Pointer into the
// checked value and what is wrong there.
type FieldError = wire.FieldError

// Invalid makes an InvalidParams error whose data lists the field errors.
func Invalid(errs ...FieldError) *Error {
	return NewError(wire.InvalidParams, map[string]any{"errors": errs})
}
