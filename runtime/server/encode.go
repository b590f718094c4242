package server

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// Encode validates and encodes a payload as e.Emit does, without emitting it, and names the event
// type. Errors are Emit's. For adapters. It is no method, of which each event type would have its own.
func Encode[P any](e *Emitter[P], p P) (event string, data json.RawMessage, err error) {
	return e.et.encodeNamed(&p)
}

// EncodePayload is [Encode] for an event type that is registered by name, such as one with
// a check; a name that is not is [events.ErrNotFound], a P that is not the type's payload is
// [events.ErrInvalidPayload]. For adapters.
func EncodePayload[P any](s *Server, event string, p P) (json.RawMessage, error) {
	return s.encodePayload(event, &p)
}

// encodePayload is EncodePayload of p, a pointer to the payload.
func (s *Server) encodePayload(event string, p any) (json.RawMessage, error) {
	s.mu.Lock()
	et := s.types[event]
	s.mu.Unlock()
	if et == nil {
		return nil, fmt.Errorf("encoding %s: %w", event, fault.NotFound("event"))
	}
	if d := et.current(); d != nil {
		if want := reflect.PointerTo(d.payloadType); reflect.TypeOf(p) != want {
			return nil, fmt.Errorf("encoding %s: %w: its payload is a %v, not a %T", event, events.ErrInvalidPayload, want, p)
		}
	}
	return et.encode(p)
}

// encodeNamed is encode with the event's name.
func (et *eventType) encodeNamed(p any) (event string, data json.RawMessage, err error) {
	data, err = et.encode(p)
	return et.name, data, err
}

// encode checks p, a pointer to the payload, and encodes it.
func (et *eventType) encode(p any) (json.RawMessage, error) {
	fail := func(err error) (json.RawMessage, error) { return nil, fmt.Errorf("encoding %s: %w", et.name, err) }
	d := et.current()
	if d == nil {
		return fail(fault.NotFound("event"))
	}
	data, err := events.Encode(p)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", events.ErrInvalidPayload, err))
	}
	if _, err := d.encodable(data); err != nil {
		return fail(err)
	}
	return data, nil
}

// OnSessionEnd calls f when a client asks for the end of its session, before the session waits for
// its calls, until stop is called. Whether the principal owns the session is f's to compare; f must
// not block. For adapters.
func (s *Server) OnSessionEnd(f func(session, principal string)) (stop func()) {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended = map[int]func(session, principal string){}
	}
	h.lastID++
	id := h.lastID
	h.ended[id] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.ended, id)
	}
}

// EndSession tells adapters that the principal asked for the end of a session. For carriers.
func (s *Server) EndSession(session, principal string) {
	h := &s.adapters.hub
	h.mu.Lock()
	var tell []func(session, principal string)
	for _, f := range h.ended {
		tell = append(tell, f)
	}
	h.mu.Unlock()
	for _, f := range tell {
		f(session, principal)
	}
}
