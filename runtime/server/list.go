package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// maxListBytes is the size limit for a page of events/list with more than one descriptor.
const maxListBytes = 1 << 20

// listEvents handles events/list (LIST-1 to LIST-4).
func (s *Server) listEvents(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodeListParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	s.mu.Lock()
	order := slices.Clone(s.order)
	last := s.lastOrder
	s.mu.Unlock()
	if p.Cursor != "" {
		if n := len(p.Cursor); n > topic.MaxCursor {
			return nil, events.Invalid(events.FieldError{Path: "/cursor", Message: fmt.Sprintf("is a cursor of %d bytes, at most %d", n, topic.MaxCursor)})
		}
		after, ok := listPosition(p.Cursor, order, last)
		if !ok {
			return nil, events.Invalid(events.FieldError{Path: "/cursor", Message: "is not a cursor of this list"})
		}
		order = order[sort.Search(len(order), func(i int) bool { return order[i].order > after }):]
	}
	res := wire.ListResult{Events: []wire.Descriptor{}}
	if r.Stateless {
		res.ResultType = wire.ResultComplete
	}
	var shown *eventType // the last one on the page
	size := 0
	for _, et := range order {
		d := et.current()
		if d == nil {
			continue
		}
		modes := d.deliveryModes(r.CanStream, r.Principal)
		if len(modes) == 0 {
			continue // this caller could not subscribe to it
		}
		ok, err := s.access.IsVisible(ctx, r.Principal, et.name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		desc := d.descriptor()
		size += len(desc.Description) + len(desc.InputSchema) + len(desc.PayloadSchema)
		if n := len(res.Events); n == s.options.PageSize || n > 0 && size > maxListBytes {
			res.NextCursor = wire.Cursor{Kind: wire.ListCursor, Name: wire.NameHash(shown.name), Position: shown.order}.String()
			break
		}
		desc.Delivery = modes
		res.Events = append(res.Events, desc)
		shown = et
	}
	return marshalResult(&res)
}

// listPosition parses a cursor of events/list. It returns the position of the last type listed, which may have been
// removed since.
func listPosition(cursor string, order []*eventType, last uint64) (uint64, bool) {
	c, err := topic.ParseCursor(cursor)
	if err != nil || c.Kind != wire.ListCursor || c.Epoch != 0 || c.Upstream != "" || c.Position == 0 || c.Position > last {
		return 0, false
	}
	i := sort.Search(len(order), func(i int) bool { return order[i].order >= c.Position })
	if i < len(order) && order[i].order == c.Position && wire.NameHash(order[i].name) != c.Name {
		return 0, false
	}
	return c.Position, true
}

func (s portAdapter) OnListChanged(f func()) (stop func()) { return s.listeners.Add(f) }

func (s *Server) notifyListChanged() {
	for f := range s.listeners.All() {
		f()
	}
}

func (s portAdapter) SetListChanged(legacy, stateless bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed[0] = s.changed[0] || legacy
	s.changed[1] = s.changed[1] || stateless
}

// capabilities returns the value of the events capability, which is advertised under two keys (D1).
func (s *Server) capabilities(stateless bool) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stateless && s.changed[1] || !stateless && s.changed[0] {
		return json.RawMessage(`{"listChanged":true}`)
	}
	return json.RawMessage(`{"listChanged":false}`)
}
