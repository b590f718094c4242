package server

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

func (s portAdapter) Call(ctx context.Context, r port.Request) (json.RawMessage, error) {
	var res json.RawMessage
	err := fault.Bounded(r.Params, s.options.MaxParams) // most carriers have checked this already
	if err != nil {
		return nil, s.rpcError(ctx, &r, err)
	}
	switch r.Method {
	case wire.MethodList:
		res, err = s.listEvents(ctx, &r)
	case wire.MethodPoll:
		res, err = s.poll(ctx, &r)
	case wire.MethodStream:
		err = s.refuseStream(ctx, &r)
	case wire.MethodSubscribe:
		res, err = s.subscribe(ctx, &r)
	case wire.MethodUnsubscribe:
		res, err = s.unsubscribe(ctx, &r)
	default:
		err = events.NewError(wire.MethodNotFound, nil)
	}
	if err != nil {
		return nil, s.rpcError(ctx, &r, err)
	}
	return res, nil
}

// refuseStream returns the error for an events/stream request on a connection that cannot carry a stream. It first
// performs the checks that come before the mode check (ERR-2).
func (s *Server) refuseStream(ctx context.Context, r *port.Request) error {
	p, err := wire.DecodeStreamParams(r.Params)
	if err != nil {
		return fault.InvalidParams(err)
	}
	if _, _, err := s.lookup(ctx, r.Principal, p.Name); err != nil {
		return err
	}
	return fault.UnsupportedMode(wire.ModePush)
}
