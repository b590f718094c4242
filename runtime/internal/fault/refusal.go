// Package fault makes the errors that callers and operators see, with their codes, data and reasons, and logs what a
// caller must not see.
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

// NotFound says that an "event" or a "subscription" is not there.
func NotFound(kind string) *events.Error {
	return events.NewError(wire.NotFound, map[string]string{"kind": kind})
}

// UnsupportedMode echoes the mode, of which a caller's may be long.
func UnsupportedMode(mode string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Value   string `json:"value"`
	}{"deliveryMode", wire.Shown(mode)})
}

// SchemaChanged says that a feature has changed incompatibly (EVOL-2).
func SchemaChanged(feature string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Reason  string `json:"reason"`
	}{feature, "schema_changed"})
}

// Exhausted says that a limit with its greatest value is reached (CAP-5).
func Exhausted(limit string, max int) *events.Error {
	return events.NewError(wire.ResourceExhausted, struct {
		Limit string `json:"limit"`
		Max   int    `json:"max"`
	}{limit, max})
}

// Unverified refuses a verification because of others, for [ReasonUndecided] or [ReasonOthers] (VER-3).
func Unverified(reason string) *events.Error {
	return events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications", "reason": reason})
}

// ErrShuttingDown says that the server is at its end (SRV-6).
var ErrShuttingDown = events.NewError(wire.Internal, map[string]string{"reason": wire.ReasonShuttingDown})

// Object is err as it may go on the wire: the text of an internal error stays here (ERR-4).
func Object(err error, d wire.Dialect) *wire.ErrorObject {
	var e *events.Error
	if !errors.As(err, &e) || e.Kind == 0 {
		e = events.NewError(wire.Internal, nil)
	}
	return &wire.ErrorObject{Code: d.Code(e.Kind), Message: message(e.Kind, reasonOf(e)), Data: e.Data}
}

// Answer is the error of a call: beside what [Object] tells, it tells the first fault of params that
// our own checks found.
func Answer(err error, d wire.Dialect) *wire.ErrorObject {
	o := Object(err, d)
	if e := (*events.Error)(nil); errors.As(err, &e) && e.Kind == wire.InvalidParams && !errors.As(err, new(*hook.Error)) {
		o.Message = message(e.Kind, paramsReason(e))
	}
	return o
}

// AsForbidden makes a refusal of an Authorize hook presentable (AUTH-1).
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

// AsUpstream makes a failure of a check presentable (PUSH-5).
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

// InvalidArguments makes the InvalidParams error of a refused argument; paths lead into the
// arguments.
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

// InvalidParams makes the InvalidParams error of params of the wrong shape.
func InvalidParams(err error) error {
	var fe *wire.FieldErrors
	if errors.As(err, &fe) {
		return events.Invalid(fe.Errors...)
	}
	return events.Invalid(events.FieldError{Message: "is not valid"})
}

// Bounded refuses params of more than max bytes before anything looks into them (CAP-5).
func Bounded(params json.RawMessage, max int) error {
	if len(params) <= max {
		return nil
	}
	return events.Invalid(events.FieldError{Message: fmt.Sprintf("have %d bytes of JSON, at most %d", len(params), max)})
}

// Typed makes an error of OnSubscribe presentable: the author's typed one, or err, which is internal.
func Typed(err error) error {
	var e *events.Error
	if errors.As(err, &e) {
		return e
	}
	return err
}
