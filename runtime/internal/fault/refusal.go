// Package fault creates the errors for callers and operators, with their codes, data and reasons. It logs the errors
// that a caller must not see.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// Features as evolve and EVOL-2 name them.
const (
	FeatureInput   = "inputSchema"
	FeaturePayload = "payloadSchema"
)

// NotFound returns the error for a missing "event" or "subscription".
func NotFound(kind string) *events.Error {
	return events.NewError(wire.NotFound, map[string]string{"kind": kind})
}

// UnsupportedMode returns the error for an unsupported mode. It shortens the mode, which a caller may have made long.
func UnsupportedMode(mode string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Value   string `json:"value"`
	}{"deliveryMode", wire.Shown(mode)})
}

// SchemaChanged returns the error for an incompatible change of a feature (EVOL-2).
func SchemaChanged(feature string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Reason  string `json:"reason"`
	}{feature, "schema_changed"})
}

// Exhausted returns the error for a limit that has been reached, with its maximum (CAP-5).
func Exhausted(limit string, max int) *events.Error {
	return events.NewError(wire.ResourceExhausted, struct {
		Limit string `json:"limit"`
		Max   int    `json:"max"`
	}{limit, max})
}

// Unverified refuses a verification because of others, with [ReasonUndecided] or [ReasonOthers] (VER-3).
func Unverified(reason string) *events.Error {
	return events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications", "reason": reason})
}

// ErrShuttingDown reports that the server is shutting down (SRV-6).
var ErrShuttingDown = events.NewError(wire.Internal, map[string]string{"reason": wire.ReasonShuttingDown})

// Object converts err to its form on the wire. It drops the text of an internal error (ERR-4).
func Object(err error, d wire.Dialect) *wire.ErrorObject {
	var e *events.Error
	if !errors.As(err, &e) || e.Kind == 0 {
		e = events.NewError(wire.Internal, nil)
	}
	return &wire.ErrorObject{Code: d.Code(e.Kind), Message: message(e.Kind, reasonOf(e)), Data: e.Data}
}

// Stored converts a typed error to the form in which a store keeps it for another process. [FromStored] decodes it.
func Stored(e *events.Error) *wire.ErrorObject {
	return &wire.ErrorObject{Code: wire.SEP.Code(e.Kind), Message: e.Kind.String(), Data: e.Data}
}

// FromStored returns the error that [Stored] encoded; nil for nil.
func FromStored(o *wire.ErrorObject) *events.Error {
	if o == nil {
		return nil
	}
	kind, _, ok := wire.KindOf(o.Code, o.Message)
	if !ok {
		kind = wire.Internal
	}
	return &events.Error{Kind: kind, Data: o.Data}
}

// Answer is [Object] for the error of a call. It also adds the first error that the checks of params found.
func Answer(err error, d wire.Dialect) *wire.ErrorObject {
	o := Object(err, d)
	if e := (*events.Error)(nil); errors.As(err, &e) && e.Kind == wire.InvalidParams && !errors.As(err, new(*hook.Error)) {
		o.Message = message(e.Kind, paramsReason(e))
	}
	return o
}

// AsForbidden converts the error of an Authorize hook to a Forbidden error (AUTH-1).
func AsForbidden(ctx context.Context, err error) error {
	var e *events.Error
	if err == nil || errors.As(err, &e) || errors.As(err, new(*hook.Panic)) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", events.Forbidden(""), err)
}

// AsUpstream converts the error of a check to an UpstreamError (PUSH-5).
func AsUpstream(ctx context.Context, err error) error {
	var e *events.Error
	if err == nil || errors.As(err, &e) || errors.As(err, new(*hook.Panic)) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", events.Upstream(""), err)
}

// InvalidArguments returns the InvalidParams error for a rejected argument. Its paths point into the arguments.
func InvalidArguments(err error) error {
	var ve *validate.Error
	if errors.As(err, &ve) {
		return events.Invalid(ve.Fields...)
	}
	var fe *wire.FieldErrors
	if errors.As(err, &fe) {
		return events.Invalid(fe.Errors...)
	}
	var de *events.DecodeError
	if errors.As(err, &de) {
		return events.Invalid(events.FieldError{Path: de.Pointer, Message: "does not fit its type"})
	}
	return events.Invalid(events.FieldError{Message: "is not valid"})
}

// InvalidParams returns the InvalidParams error for params of the wrong shape.
func InvalidParams(err error) error {
	var fe *wire.FieldErrors
	if errors.As(err, &fe) {
		return events.Invalid(fe.Errors...)
	}
	return events.Invalid(events.FieldError{Message: "is not valid"})
}

// Bounded rejects params of more than max bytes before anything decodes them (CAP-5).
func Bounded(params json.RawMessage, max int) error {
	if len(params) <= max {
		return nil
	}
	return events.Invalid(events.FieldError{Message: fmt.Sprintf("have %d bytes of JSON, at most %d", len(params), max)})
}

// Typed returns the author's typed error of OnSubscribe, or err itself, which is internal.
func Typed(err error) error {
	var e *events.Error
	if errors.As(err, &e) {
		return e
	}
	return err
}
