package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An Error is an error of the Events extension. It is returned by hooks and checks on servers, and by calls and
// iterators on clients. Use errors.Is to compare it with errors such as [ErrNotFound], or errors.As to access its kind
// and data.
type Error struct {
	// Kind identifies the error, independent of the code family on the wire. See D2.
	Kind Kind
	// Data is the error's data member as JSON, or nil.
	Data json.RawMessage
	// Code is the received JSON-RPC code, or 0 if the error was created locally.
	Code int64
	// Message is the received message. If it is empty, Error uses the name of the kind.
	Message string
}

// Sentinel errors for errors.Is. Each error matches all Errors of its kind.
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
	// ErrTooLarge is returned by Emit if the payload exceeds the server's limit. See HOOK-1.
	ErrTooLarge = errors.New("events: payload too large")
	// ErrEventID is returned by Emit if the id of [WithID] is not 1 to 256 bytes of visible ASCII. See OCC-2.
	ErrEventID = errors.New("event id must be 1 to 256 bytes of visible ASCII")
	// ErrInvalidPayload is returned by Emit, wrapped, if the payload violates its schema. See OCC-4.
	ErrInvalidPayload = errors.New("events: payload breaks payloadSchema")
	// ErrIDReused is returned by Emit, wrapped, if the log already contains the eventId with the same targets but
	// different data. No occurrence is emitted. See OCC-5.
	ErrIDReused = errors.New("events: eventId was used for other data")
)

// An UncertainError reports that Emit did not receive the store's answer, so it is unknown whether the occurrence was
// emitted. Emit returns it if the context ends before the answer arrives. To retry, call Emit with WithID(EventID) and
// the same data. This emits the occurrence if it is missing, but never duplicates it (REP-22).
type UncertainError struct {
	// EventID is the eventId of the occurrence, which was set by the author or generated.
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

// Error returns the message, or the name of the kind if the message is empty, followed by the data.
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

// NewError returns an Error of the given kind, with data encoded as JSON. If data is nil, it is omitted.
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

// Forbidden returns an error that denies the caller access. If reason is empty, the error has no data. See AUTH-1.
func Forbidden(reason string) *Error {
	if reason == "" {
		return NewError(KindForbidden, nil)
	}
	return NewError(KindForbidden, map[string]string{"reason": reason})
}

// Upstream returns an error for a failure of an upstream service. Subscribers can see the reason. See PUSH-5.
func Upstream(reason string) *Error {
	if reason == "" {
		return NewError(KindUpstreamError, nil)
	}
	return NewError(KindUpstreamError, map[string]string{"reason": reason})
}

// A FieldError describes an invalid field. The data of an InvalidParams error contains such errors.
type FieldError struct {
	// Path is a JSON Pointer (RFC 6901) into the validated value; "" is the whole value.
	Path string `json:"path"`
	// Message describes the problem. It must be safe to send to a peer. See ERR-4.
	Message string `json:"message"`
}

// Error returns the path and the message.
func (e FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Invalid returns an InvalidParams error with the field errors as its data.
func Invalid(errs ...FieldError) *Error {
	return NewError(KindInvalidParams, map[string]any{"errors": errs})
}
