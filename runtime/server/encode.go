package server

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// encodePayload encodes p, a pointer to the payload of the named event type.
func (s *Server) encodePayload(event string, p any) (json.RawMessage, error) {
	et := s.eventType(event)
	if et == nil {
		return nil, fmt.Errorf("encoding %s: %w", event, fault.NotFound("event"))
	}
	if d := et.current(); d != nil {
		if want := reflect.PointerTo(d.hooks.Payload); reflect.TypeOf(p) != want {
			return nil, fmt.Errorf("encoding %s: %w: its payload is a %v, not a %T", event, events.ErrInvalidPayload, want, p)
		}
	}
	return et.encode(p)
}

// encode encodes and validates the payload to which p points, without its private members.
func (et *eventType) encode(p any) (json.RawMessage, error) {
	fail := func(err error) (json.RawMessage, error) { return nil, fmt.Errorf("encoding %s: %w", et.name, err) }
	d := et.current()
	if d == nil {
		return fail(fault.NotFound("event"))
	}
	var err error
	if d.private != nil {
		if p, err = d.withoutPrivate(p); err != nil {
			return fail(fmt.Errorf("%w: %w", events.ErrInvalidPayload, err))
		}
	}
	data, err := codec.Encode(p)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", events.ErrInvalidPayload, err))
	}
	if err := d.checkData(data); err != nil {
		return fail(err)
	}
	return data, nil
}
