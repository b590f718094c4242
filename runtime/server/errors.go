package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// dialectFor returns the family of error codes for a caller (D2).
func (s *Server) dialectFor(declaresExtension bool) wire.Dialect {
	if s.options.Codes == CodesSEP || s.options.Codes == CodesAuto && declaresExtension {
		return wire.SEP
	}
	return wire.Sketch
}

// rpcError converts a call's error to a JSON-RPC error. It logs the details that the caller must not see.
func (s *Server) rpcError(ctx context.Context, r *port.Request, err error) *jsonrpc.Error {
	var j *jsonrpc.Error
	if errors.As(err, &j) {
		return j
	}
	s.log.Internal(ctx, r.Method, err)
	var e *events.Error
	if s.isClosed() && (!errors.As(err, &e) || e.Kind == 0 || e.Kind == wire.Internal) {
		err = fault.ErrShuttingDown // a hook's context is over by now, or a store is closed
	}
	o := fault.Answer(err, s.dialectFor(r.DeclaresExtension))
	return &jsonrpc.Error{Code: o.Code, Message: o.Message, Data: o.Data}
}

// marshalResult encodes a result as JSON.
func marshalResult(v any) (json.RawMessage, error) {
	b, err := codec.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	return b, nil
}
