package wrongserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// mayStream refuses an invalid events/stream.
func (s *Server) mayStream(c call) error {
	if c.stringParam("name") != "" && typeModes[c.stringParam("name")] == nil && s.is("stream-unknown-event") {
		return nil
	}
	if err := s.checkParams(c, wire.ModePush); err != nil {
		return err
	}
	if cursor := c.cursorParam(); cursor != nil && s.is("foreign-cursor-stream-error") {
		if own, _, ok := strings.Cut(*cursor, ":"); ok && own != c.stringParam("name") && typeModes[own] != nil {
			return s32602
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams > 0 && s.is("one-stream") {
		return newRefusal(wire.Internal, nil)
	}
	return nil
}

// delayPoll delays a poll if streams are open or long polls are pending and a fault requires it.
func (s *Server) delayPoll(ctx context.Context) {
	s.mu.Lock()
	open, held := s.streams, s.held
	s.mu.Unlock()
	switch {
	case held > 0 && s.is("held-poll-blocks-others"):
		<-ctx.Done()
	case open > 0 && s.is("stream-blocks-polls"):
		select {
		case <-ctx.Done():
		case <-time.After(8 * time.Second):
		}
	case open > 2 && s.is("three-streams-block-polls"):
		<-ctx.Done()
	}
}

// writeStream writes notifications until ctx is done.
func (s *Server) writeStream(ctx context.Context, c call, write func([]byte) error) {
	s.mu.Lock()
	s.streams++
	second := s.streams > 1
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	}()
	name := "tick"
	_, _, head := s.eventsAfter(0)
	from, truncated := s.startOf(c, head)
	if s.is("no-replay") {
		from = head
	}
	if s.is("stream-malformed-cursor") {
		truncated = false
	}
	replayed := head
	send := func(method string, params map[string]any) error {
		id := c.ID
		if s.is("subscription-id-string") && !strings.HasPrefix(string(id), `"`) {
			id = fmt.Appendf(nil, "%q", id)
		}
		if !s.is("no-subscription-id") {
			params["_meta"] = map[string]any{wire.MetaSubscriptionID: id}
		}
		m := map[string]any{"jsonrpc": "2.0", "method": method, "params": s.applyChange(method, params)}
		if s.is("notifications-id") {
			m["id"] = 1
		}
		if _, ok := params["cursor"]; ok && s.is("stream-cursor-null") {
			params["cursor"] = nil
		}
		b, _ := json.Marshal(m)
		return write(b)
	}
	activeAt := from
	if s.is("active-ahead-of-replay") {
		activeAt = head
	}
	if s.is("active-ahead") {
		activeAt += 2
	}
	if s.is("event-before-active") {
		_ = send(wire.NotificationEvent, s.streamEvent(event{1, time.Now()}))
	}
	if !s.is("no-active") {
		if send(wire.NotificationActive, map[string]any{"cursor": cursorOf(name, activeAt), "truncated": truncated}) != nil {
			return
		}
	}
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	beats, sent, sentAt := 0, 0, from
	for {
		list, appended, _ := s.eventsAfter(from)
		if s.is("streams-change-order") {
			if len(list)%2 != 0 { // pairs
				list = list[:len(list)-1]
			}
			for i := 0; i+1 < len(list); i += 2 {
				list[i], list[i+1] = list[i+1], list[i]
			}
		}
		for _, e := range list {
			if from = max(from, e.position); !s.selects(c.Params["arguments"], wire.ModePush) {
				continue
			}
			sentAt = from
			if s.is("streams-leave-events-out") && e.position%3 == 0 || s.is("second-stream-gets-less") && second && e.position%3 == 0 ||
				s.is("replay-leaves-events-out") && e.position <= replayed && e.position%2 == 0 ||
				s.is("last-event-before-stream-lost") && e.position == replayed {
				continue
			}
			sent++
			switch {
			case s.is("streams-stop") && sent > 4:
				continue
			case s.is("streams-end-no-result") && sent > 1:
				return
			case s.is("active-comes-again") && send(wire.NotificationActive, map[string]any{"cursor": cursorOf(name, from-1), "truncated": false}) != nil,
				s.is("stream-other-notifications") && send("notifications/message", map[string]any{"level": "info", "data": "sent"}) != nil:
				return
			}
			o := s.streamEvent(e)
			if s.is("replay-cursor-head") && e.position <= replayed {
				o["cursor"] = cursorOf(name, replayed)
			}
			if send(wire.NotificationEvent, o) != nil {
				return
			}
			if s.is("each-event-twice") && send(wire.NotificationEvent, s.streamEvent(e)) != nil {
				return
			}
			if s.is("events-others") {
				o := s.streamEvent(e)
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
			if s.is("no-heartbeats") || s.is("heartbeats-stop") && beats > 9 {
				continue
			}
			if s.is("streams-break-off") && beats > 9 {
				return
			}
			at := from
			switch {
			case s.is("heartbeats-ahead"):
				at += 5
			case s.is("heartbeat-cursor-quiet-stuck"):
				at = sentAt
			case s.is("heartbeats-go-back"):
				at = max(at-5, 0)
			}
			params := map[string]any{"cursor": cursorOf(name, at)}
			if s.is("heartbeat-cursor-foreign") {
				params["cursor"] = cursorOf("spare", at)
			}
			if beats++; s.is("heartbeats-no-cursor") || s.is("only-first-heartbeat-cursor") && beats > 1 {
				delete(params, "cursor")
			}
			if send(wire.NotificationHeartbeat, params) != nil {
				return
			}
		}
	}
}

// streamEvent returns an event in the format of a stream.
func (s *Server) streamEvent(e event) map[string]any {
	o := s.occurrence(e)
	o["cursor"] = cursorOf("tick", e.position)
	switch {
	case s.is("stream-event-cursor-null"):
		o["cursor"] = nil
	case s.is("no-cursor-stream"):
		delete(o, "cursor")
	case s.is("stream-cursor-before"):
		o["cursor"] = cursorOf("tick", e.position-1)
	case s.is("stream-cursor-ahead"):
		o["cursor"] = cursorOf("tick", e.position+1)
	case s.is("event-ids-streams-others"):
		o["eventId"] = fmt.Sprintf("stream_%d", e.position)
	case s.is("event-ids-streams-spaces"):
		o["eventId"] = fmt.Sprintf("evt %d", e.position)
	case s.is("data-streams-other"):
		o["data"] = map[string]any{"seq": e.position, "more": true}
	case s.is("timestamps-streams-ahead"):
		o["timestamp"] = e.at.Add(2 * time.Hour).UTC().Format(time.RFC3339Nano)
	}
	return o
}
