package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An Error is an error of the Events extension. Servers return it from hooks and checks; clients receive it
// from calls and iterators. Compare it with [ErrNotFound] and its siblings by errors.Is, or use errors.As to
// read its kind and data.
type Error struct {
	// Kind is the error's name, independent of the code family on the wire. See D2.
	Kind Kind
	// Data is the error's data member as JSON, or nil.
	Data json.RawMessage
	// Code is the received JSON-RPC code; 0 if the error was created locally.
	Code int64
	// Message is the received message; if empty, Error uses the kind's name.
	Message string
}

// Sentinel errors for errors.Is. Each matches any Error of its kind.
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
	// ErrEventID is returned by Emit if the id of [WithID] is not 1 to 256 bytes of visible ASCII. See OCC-2.
	ErrEventID = errors.New("event id must be 1 to 256 bytes of visible ASCII")
	// ErrInvalidPayload matches errors of Emit for a payload that violates its schema. See OCC-4.
	ErrInvalidPayload = errors.New("events: payload breaks payloadSchema")
	// ErrIDReused matches errors of Emit for an eventId that the log already holds with different data. The
	// targets are the same, and nothing is emitted. See OCC-5.
	ErrIDReused = errors.New("events: eventId was used for other data")
)

// An UncertainError reports that Emit lost the store's answer and does not know whether the occurrence was
// emitted. Emit returns it when the context ends before the outcome is known. Call Emit again with [WithID] of
// EventID and the same data: this emits the occurrence if it is missing and never duplicates it (REP-22).
type UncertainError struct {
	// EventID is the eventId of the occurrence, even if it was generated.
	EventID string
	// Err is the cause.
	Err error
}

// Error returns the eventId and the cause.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("event %s may have been emitted: %v", e.EventID, e.Err)
}

// Unwrap returns Err.
func (e *UncertainError) Unwrap() error { return e.Err }

// Error returns the message, or the kind's name without one, and the data.
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

// NewError returns an Error of kind with data encoded as JSON; nil data is omitted.
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

// Forbidden returns an error that denies the caller access. An empty reason omits data. See AUTH-1.
func Forbidden(reason string) *Error {
	if reason == "" {
		return NewError(KindForbidden, nil)
	}
	return NewError(KindForbidden, map[string]string{"reason": reason})
}

// Upstream returns an error for a failing upstream, with a reason that subscribers may see. See PUSH-5.
func Upstream(reason string) *Error {
	if reason == "" {
		return NewError(KindUpstreamError, nil)
	}
	return NewError(KindUpstreamError, map[string]string{"reason": reason})
}

// A FieldError is one entry of the errors in an InvalidParams error's data.
type FieldError struct {
	// Path is a JSON Pointer (RFC 6901) into the validated value; "" is the value itself.
	Path string `json:"path"`
	// Message describes the problem in words that are safe to send to a peer. See ERR-4.
	Message string `json:"message"`
}

// Error returns the path and the message.
func (e FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Invalid returns an InvalidParams error whose data lists the field errors.
func Invalid(errs ...FieldError) *Error {
	return NewError(KindInvalidParams, map[string]any{"errors": errs})
}
