// Package fault creates errors for callers and operators, with their codes, data and reasons. It logs errors that must
// not be sent to callers.
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

// Names of features, as used by evolve and EVOL-2.
const (
	FeatureInput   = "inputSchema"
	FeaturePayload = "payloadSchema"
)

// NotFound returns the error for a nonexistent event type or subscription. The parameter kind is "event" or
// "subscription".
func NotFound(kind string) *events.Error {
	return events.NewError(wire.NotFound, map[string]string{"kind": kind})
}

// UnsupportedMode returns the error for an unsupported mode. It truncates the mode, because a caller can send a long
// string.
func UnsupportedMode(mode string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Value   string `json:"value"`
	}{"deliveryMode", wire.Shown(mode)})
}

// SchemaChanged returns the error for an incompatible change to a feature (EVOL-2).
func SchemaChanged(feature string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Reason  string `json:"reason"`
	}{feature, "schema_changed"})
}

// Revoked returns the error that ends a subscription whose principal's access was revoked (AUTH-2).
func Revoked() *events.Error { return events.Forbidden("access revoked") }

// Exhausted returns the error for a limit that has been reached, with its maximum (CAP-5).
func Exhausted(limit string, max int) *events.Error {
	return events.NewError(wire.ResourceExhausted, struct {
		Limit string `json:"limit"`
		Max   int    `json:"max"`
	}{limit, max})
}

// Unverified returns the error for a verification refused because of other callers. reason is [ReasonUndecided] or
// [ReasonOthers] (VER-3).
func Unverified(reason string) *events.Error {
	return events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications", "reason": reason})
}

// ErrShuttingDown is returned while the server is shutting down (SRV-6).
var ErrShuttingDown = events.NewError(wire.Internal, map[string]string{"reason": wire.ReasonShuttingDown})

// Object converts err to a JSON-RPC error object. It omits the text of an internal error (ERR-4).
func Object(err error, d wire.Dialect) *wire.ErrorObject {
	var e *events.Error
	if !errors.As(err, &e) || e.Kind == 0 {
		e = events.NewError(wire.Internal, nil)
	}
	return &wire.ErrorObject{Code: d.Code(e.Kind), Message: errorMessage(e.Kind, reasonOf(e)), Data: e.Data}
}

// Stored encodes a typed error, which a store can then pass to another process. [FromStored] decodes it.
func Stored(e *events.Error) *wire.ErrorObject {
	return &wire.ErrorObject{Code: wire.SEP.Code(e.Kind), Message: e.Kind.String(), Data: e.Data}
}

// FromStored decodes an error encoded by [Stored]. It returns nil for nil.
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

// Answer is like [Object], but is used for errors that a call returns. Its message also contains the first error found
// when the params were validated.
func Answer(err error, d wire.Dialect) *wire.ErrorObject {
	o := Object(err, d)
	if e := (*events.Error)(nil); errors.As(err, &e) && e.Kind == wire.InvalidParams && !errors.As(err, new(*hook.Error)) {
		o.Message = errorMessage(e.Kind, paramsReason(e))
	}
	return o
}

// AsForbidden converts an error returned by an Authorize hook to a Forbidden error (AUTH-1).
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

// AsUpstream converts an error returned by a check to an UpstreamError (PUSH-5).
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

// InvalidArguments returns the InvalidParams error for rejected arguments. Its paths are relative to the arguments.
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

// InvalidParams returns the InvalidParams error for malformed params.
func InvalidParams(err error) error {
	var fe *wire.FieldErrors
	if errors.As(err, &fe) {
		return events.Invalid(fe.Errors...)
	}
	return events.Invalid(events.FieldError{Message: "is not valid"})
}

// Bounded returns an error if the size of the params exceeds max bytes. It must be called before the params are decoded
// (CAP-5).
func Bounded(params json.RawMessage, max int) error {
	if len(params) <= max {
		return nil
	}
	return events.Invalid(events.FieldError{Message: fmt.Sprintf("have %d bytes of JSON, at most %d", len(params), max)})
}

// Typed returns the typed error that the author's OnSubscribe returned. For all other errors, it returns err itself,
// which is then treated as an internal error.
func Typed(err error) error {
	var e *events.Error
	if errors.As(err, &e) {
		return e
	}
	return err
}
