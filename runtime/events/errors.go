package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An Error is an error of the extension. Servers return it from hooks and checks; clients get it
// from calls and iterators. Compare with errors.Is against [ErrNotFound] and its siblings, or take
// it with errors.As for its kind and data.
type Error struct {
	// Kind is the error's name, independent of the code family on the wire. See D2.
	Kind Kind
	// Data is the error's data member as JSON, or nil.
	Data json.RawMessage
	// Code is the code as received; 0 on an error made here.
	Code int64
	// Message is the message as received; the kind's name when empty.
	Message string
}

// Sentinels for errors.Is; they match any Error of their kind.
var (
	ErrInvalidParams     = &Error{Kind: KindInvalidParams}
	ErrNotFound          = &Error{Kind: KindNotFound}
	ErrForbidden         = &Error{Kind: KindForbidden}
	ErrResourceExhausted = &Error{Kind: KindResourceExhausted}
	ErrUnsupported       = &Error{Kind: KindUnsupported}
	ErrUpstream          = &Error{Kind: KindUpstreamError}
)

// Errors of Emit.
var (
	// ErrClosed is returned by Emit after Shutdown.
	ErrClosed = errors.New("events: server is shut down")
	// ErrTooLarge is returned by Emit for a payload above the server's limit. See HOOK-1.
	ErrTooLarge = errors.New("events: payload too large")
	// ErrEventID is returned by Emit for a [WithID] that is not 1 to 256 bytes of visible ASCII. See
	// OCC-2.
	ErrEventID = errors.New("event id must be 1 to 256 bytes of visible ASCII")
	// ErrInvalidPayload is matched by errors of Emit whose payload breaks its schema. See
	// OCC-4.
	ErrInvalidPayload = errors.New("events: payload breaks payloadSchema")
	// ErrIDReused is matched by errors of Emit under an eventId that the log holds for the same
	// targets with other data; nothing is emitted. See OCC-5.
	ErrIDReused = errors.New("events: eventId was used for other data")
)

// An UncertainError is returned by Emit when the store's answer was lost and did not come before the context
// ended: the occurrence may have been emitted. Emitting again with [WithID] of EventID and the same data makes
// sure of it and never makes a second occurrence (REP-22).
type UncertainError struct {
	// EventID is the occurrence's, also where it was generated.
	EventID string
	// Err is what happened.
	Err error
}

// Error names the eventId.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("event %s may have been emitted: %v", e.EventID, e.Err)
}

// Unwrap returns Err.
func (e *UncertainError) Unwrap() error { return e.Err }

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
func NewError(kind Kind, data any) *Error {
	e := &Error{Kind: kind}
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			return &Error{Kind: KindInternal}
		}
		e.Data = b
	}
	return e
}

// Forbidden refuses a caller. An empty reason leaves data out. See AUTH-1.
func Forbidden(reason string) *Error {
	if reason == "" {
		return NewError(KindForbidden, nil)
	}
	return NewError(KindForbidden, map[string]string{"reason": reason})
}

// Upstream reports a failing upstream with a reason that may be shown to subscribers. See
// PUSH-5.
func Upstream(reason string) *Error {
	if reason == "" {
		return NewError(KindUpstreamError, nil)
	}
	return NewError(KindUpstreamError, map[string]string{"reason": reason})
}

// A FieldError is one entry of the errors in an InvalidParams error's data.
type FieldError struct {
	// Path is a JSON Pointer (RFC 6901) into the checked value; "" is the value itself.
	Path string `json:"path"`
	// Message says what is wrong there, in words that may go on the wire. See ERR-4.
	Message string `json:"message"`
}

// Error gives path and message.
func (e FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Invalid makes an InvalidParams error whose data lists the field errors.
func Invalid(errs ...FieldError) *Error {
	return NewError(KindInvalidParams, map[string]any{"errors": errs})
}
