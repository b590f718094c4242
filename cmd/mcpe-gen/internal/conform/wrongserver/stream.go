package wrongserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// mayStream refuses an events/stream.
func (s *Server) mayStream(c call) error {
	if c.text("name") != "" && modes[c.text("name")] == nil && s.is("an unknown event is streamed") {
		return nil
	}
	if err := s.check(c, wire.ModePush); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams > 0 && s.is("one stream for each caller") {
		return refuse(wire.Internal, nil)
	}
	return nil
}

// stream writes notifications until ctx ends.
func (s *Server) stream(ctx context.Context, c call, write func([]byte) error) {
	s.mu.Lock()
	s.streams++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	}()
	name := "tick"
	_, _, head := s.after(0)
	from, truncated := s.start(c, head)
	if s.is("no replay") {
		from = head
	}
	if s.is("a stream with a malformed cursor") {
		truncated = false
	}
	send := func(method string, params map[string]any) error {
		id := c.ID
		if s.is("the subscription id is a string") && !strings.HasPrefix(string(id), `"`) {
			id = fmt.Appendf(nil, "%q", id)
		}
		if !s.is("no subscription id") {
			params["_meta"] = map[string]any{wire.MetaSubscriptionID: id}
		}
		m, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
		return write(m)
	}
	activeAt := from
	if s.is("active is ahead of the replay") {
		activeAt = head
	}
	if s.is("an event before active") {
		_ = send(wire.NotificationEvent, s.pushed(event{1, time.Now()}))
	}
	if !s.is("no active") {
		if send(wire.NotificationActive, map[string]any{"cursor": cursorOf(name, activeAt), "truncated": truncated}) != nil {
			return
		}
	}
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	for {
		list, appended, _ := s.after(from)
		for _, e := range list {
			from = e.position
			if send(wire.NotificationEvent, s.pushed(e)) != nil {
				return
			}
			if s.is("each event twice") && send(wire.NotificationEvent, s.pushed(e)) != nil {
				return
			}
			if s.is("events of others") {
				o := s.pushed(e)
				o["name"], o["eventId"] = "hook", fmt.Sprintf("hook_%d", e.position)
				if send(wire.NotificationEvent, o) != nil {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-appended:
		case <-heartbeat.C:
			if s.is("no heartbeats") {
				continue
			}
			params := map[string]any{"cursor": cursorOf(name, from)}
			if s.is("heartbeats without a cursor") {
				delete(params, "cursor")
			}
			if send(wire.NotificationHeartbeat, params) != nil {
				return
			}
		}
	}
}

// pushed is an event as a stream carries it.
func (s *Server) pushed(e event) map[string]any {
	o := s.occurrence(e)
	o["cursor"] = cursorOf("tick", e.position)
	switch {
	case s.is("no cursor in a stream"):
		delete(o, "cursor")
	case s.is("the cursor is that before"):
		o["cursor"] = cursorOf("tick", e.position-1)
	}
	return o
}
