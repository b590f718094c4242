package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Refusals with fixed data.
func notFound(kind string) *events.Error {
	return events.NewError(wire.NotFound, map[string]string{"kind": kind})
}

// unsupportedMode echoes the mode, of which a caller's may be long.
func unsupportedMode(mode string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Value   string `json:"value"`
	}{"deliveryMode", wire.Shown(mode)})
}

func schemaChanged(feature string) *events.Error {
	return events.NewError(wire.Unsupported, struct {
		Feature string `json:"feature"`
		Reason  string `json:"reason"`
	}{feature, "schema_changed"})
}

func exhausted(limit string, max int) *events.Error {
	return events.NewError(wire.ResourceExhausted, struct {
		Limit string `json:"limit"`
		Max   int    `json:"max"`
	}{limit, max})
}

// dialect is the family of codes for a caller (D2).
func (s *Server) dialect(declaresExtension bool) wire.Dialect {
	if s.options.Codes == CodesSEP || s.options.Codes == CodesAuto && declaresExtension {
		return wire.SEP
	}
	return wire.Sketch
}

// errorObject is err as it may go on the wire: the text of an internal error stays here (ERR-4).
func errorObject(err error, d wire.Dialect) *wire.ErrorObject {
	var e *events.Error
	if !errors.As(err, &e) || e.Kind == 0 {
		e = events.NewError(wire.Internal, nil)
	}
	return &wire.ErrorObject{Code: d.Code(e.Kind), Message: message(e.Kind, reasonOf(e)), Data: e.Data}
}

// refusal is the bare JSON-RPC error of a call; what is not meant for the caller is logged.
func (s *Server) refusal(ctx context.Context, r *Request, err error) *jsonrpc.Error {
	var j *jsonrpc.Error
	if errors.As(err, &j) {
		return j
	}
	s.logInternal(ctx, r.Method, err)
	o := errorObject(err, s.dialect(r.DeclaresExtension))
	if e := (*events.Error)(nil); errors.As(err, &e) && e.Kind == wire.InvalidParams && !errors.As(err, new(*hookError)) {
		o.Message = message(e.Kind, paramsReason(e))
	}
	return &jsonrpc.Error{Code: o.Code, Message: o.Message, Data: o.Data}
}

func (s *Server) logInternal(ctx context.Context, doing string, err error) {
	if h := (*hookError)(nil); errors.As(err, &h) && h == err {
		err = h.error
	}
	var e *events.Error
	if errors.As(err, &e) && e.Kind != wire.Internal && e == err {
		return // made for the caller, nothing to add
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return // the caller went away
	}
	attrs := []any{"error", err}
	var p *hookPanic
	if errors.As(err, &p) {
		if _, known := s.panics.LoadOrStore(p.place, struct{}{}); !known {
			attrs = append(attrs, "stack", string(p.stack))
		}
	}
	s.options.Logger.ErrorContext(ctx, "mcp events: "+doing+" failed", attrs...)
}

// asForbidden makes a refusal of an Authorize hook presentable (AUTH-1).
func asForbidden(ctx context.Context, err error) error {
	var e *events.Error
	if err == nil || errors.As(err, &e) || errors.As(err, new(*hookPanic)) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", events.Forbidden(""), err)
}

// asUpstream makes a failure of a check presentable (PUSH-5).
func asUpstream(ctx context.Context, err error) error {
	var e *events.Error
	if err == nil || errors.As(err, &e) || errors.As(err, new(*hookPanic)) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", events.Upstream(""), err)
}

// A hookPanic is a panic of an author's hook as an error. The log has its stack the first time for
// each place: a hook may panic for every occurrence and every subscription.
type hookPanic struct {
	place panicPlace
	value any
	stack []byte
}

// A panicPlace is a hook of an event type, or of Options, which has none.
type panicPlace struct{ hook, event string }

func (p *hookPanic) Error() string { return fmt.Sprintf("panic in %s: %v", p.place.hook, p.value) }

// guard runs an author's hook.
func guard(hook string, f func() error) error { return guarded(panicPlace{hook: hook}, f) }

// guard runs a hook of the type.
func (d *definition) guard(hook string, f func() error) error {
	return guarded(panicPlace{hook, d.info.Name}, f)
}

func guarded(at panicPlace, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &hookPanic{at, v, debug.Stack()}
		}
	}()
	return ofHook(f())
}

// marshalResult encodes a result that is built from values of ours.
func marshalResult(v any) (json.RawMessage, error) {
	b, err := events.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	return b, nil
}
