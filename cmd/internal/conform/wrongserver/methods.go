package wrongserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// An event is an occurrence of the type tick.
type event struct {
	position int
	at       time.Time
}

// emit appends an event to the log at each interval, if there is one.
func (s *Server) emit() {
	if s.o.Interval == 0 {
		return
	}
	ticker := time.NewTicker(s.o.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case at := <-ticker.C:
			n := 1
			if s.is("held-poll-one-of-burst") {
				n = 2
			}
			s.occur(at, n)
		}
	}
}

// Emit appends n events at one moment.
func (s *Server) Emit(n int) { s.occur(time.Now(), n) }

// occur appends n events.
func (s *Server) occur(at time.Time, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.log = append(s.log, event{len(s.log) + 1, at.Add(s.o.Skew)})
	}
	close(s.appended)
	s.appended = make(chan struct{})
}

// eventsAfter returns the events after a position, a channel that is closed by the next event, and the head.
func (s *Server) eventsAfter(position int) ([]event, chan struct{}, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log[min(position, len(s.log)):]), s.appended, len(s.log)
}

func cursorOf(name string, position int) string { return name + ":" + strconv.Itoa(position) }

// position parses a cursor.
func position(name, cursor string) (p int, known bool) {
	own, digits, _ := strings.Cut(cursor, ":")
	p, err := strconv.Atoi(digits)
	return p, own == name && err == nil && p >= 0
}

// occurrence returns the event in the server's wire format.
func (s *Server) occurrence(e event) map[string]any {
	o := map[string]any{"eventId": fmt.Sprintf("evt_%d", e.position), "name": "tick",
		"timestamp": e.at.UTC().Format(time.RFC3339Nano), "data": map[string]any{"seq": e.position}}
	switch {
	case s.is("no-event-id"):
		delete(o, "eventId")
	case s.is("another-name"):
		o["name"] = "tock"
	case s.is("timestamp-no-zone"):
		o["timestamp"] = e.at.Format("2006-01-02T15:04:05")
	case s.is("event-id-spaces"):
		o["eventId"] = fmt.Sprintf("event %d", e.position)
	case s.is("event-id-shared"):
		o["eventId"] = "evt"
	case s.is("data-invalid"):
		o["data"] = map[string]any{"seq": "one"}
	case s.is("timestamps-ahead"):
		o["timestamp"] = e.at.Add(2 * time.Hour).UTC().Format(time.RFC3339Nano)
	case s.is("event-id-of-reading"):
		o["eventId"] = webhook.NewMessageID("evt")
	case s.is("timestamp-of-reading"):
		o["timestamp"] = time.Now().UTC().Format(time.RFC3339Nano)
	}
	return o
}

// answerRequest returns the result of any request except a stream.
func (s *Server) answerRequest(ctx context.Context, c call) (any, error) {
	switch c.Method {
	case "server/discover":
		return s.discover(), nil
	case wire.MethodList:
		return s.list(c)
	case wire.MethodPoll:
		if err := s.checkParams(c, wire.ModePoll); err != nil {
			return nil, err
		}
		return s.poll(ctx, c)
	case wire.MethodStream:
		return nil, s.mayStream(c)
	case wire.MethodSubscribe:
		return s.subscribe(ctx, c)
	case wire.MethodUnsubscribe:
		return s.unsubscribe(c)
	}
	if s.is("method-unknown-result") {
		return map[string]any{}, nil
	}
	return nil, newRefusal(wire.MethodNotFound, nil)
}

func (s *Server) discover() any {
	capability := map[string]any{"listChanged": false}
	if s.is("list-changed-word") {
		capability["listChanged"] = "no"
	}
	capabilities := map[string]any{"events": capability, "extensions": map[string]any{wire.ExtensionID: capability}}
	if s.is("no-capability") {
		capabilities = map[string]any{}
	}
	if s.is("capability-experimental") {
		capabilities = map[string]any{"experimental": capabilities}
	}
	return map[string]any{"resultType": "complete", "supportedVersions": []string{wire.RevisionStateless},
		"capabilities": capabilities}
}

// typeModes maps each event type to its delivery modes.
var typeModes = map[string][]string{"tick": {"poll", "push", "webhook"}, "spare": {"poll"}, "hook": {"webhook"}}

func (s *Server) list(c call) (any, error) {
	s.mu.Lock()
	if c.cursorParam() == nil {
		s.lists++
	}
	lists := s.lists
	s.mu.Unlock()
	if s.is("extension-required") && !bytes.Contains(c.Params["_meta"], []byte(wire.ExtensionID)) {
		return nil, newRefusal(wire.MethodNotFound, nil)
	}
	if s.is("list-unknown-members") && c.Params["mcpeGenConform"] != nil {
		return nil, s32602
	}
	names := []string{"tick", "spare", "hook"}
	if s.is("order-changes") && lists%2 == 0 {
		slices.Reverse(names)
	}
	r := map[string]any{"resultType": "complete"}
	switch cursor := c.cursorParam(); {
	case cursor == nil:
		r["nextCursor"] = "2"
		names = names[:2]
	case *cursor == "2":
		names = names[2:]
		if s.is("next-cursor-null") {
			r["nextCursor"] = nil
		}
		if s.is("list-circular") {
			r["nextCursor"] = "2"
		}
		if s.is("type-listed-twice") {
			names = append(names, "tick")
		}
	case !s.is("list-any-cursor"):
		return nil, s32602
	}
	if s.is("another-result-type") {
		r["resultType"] = "done"
	}
	var list []any
	for _, name := range names {
		d := map[string]any{"name": name, "description": "What happens.", "delivery": typeModes[name],
			"inputSchema": map[string]any{"type": "object",
				"properties": map[string]any{"every": map[string]any{"type": "integer", "minimum": 1, "maximum": 1000},
					"kind": map[string]any{"type": "string", "enum": []string{"tick", "tock"}}}, "additionalProperties": false},
			"payloadSchema": map[string]any{"type": "object",
				"properties": map[string]any{"seq": map[string]any{"type": "integer"}},
				"required":   []string{"seq"}}}
		switch {
		case s.is("description-null"):
			d["description"] = nil
		case s.is("no-description"):
			delete(d, "description")
		case s.is("no-delivery") && name == "spare":
			d["delivery"] = []string{}
		case s.is("malformed-schema") && name == "spare":
			d["payloadSchema"] = map[string]any{"type": "number of things"}
		}
		list = append(list, d)
	}
	r["events"] = list
	return r, nil
}

// eventName returns the name of the event type that a call means, by the rules of a fault.
func (s *Server) eventName(c call) string {
	name := c.stringParam("name")
	switch {
	case s.is("names-any-case"):
		return strings.ToLower(name)
	case s.is("names-trimmed"):
		return strings.TrimSpace(name)
	case s.is("names-prefix"):
		for known := range typeModes {
			if len(name) > 2 && strings.HasPrefix(known, name) {
				return known
			}
		}
	}
	return name
}

// checkParams rejects invalid params that all methods share, in the order of ERR-2.
func (s *Server) checkParams(c call, mode string) error {
	name := s.eventName(c)
	offered, known := typeModes[name]
	if s.is("arguments-first") {
		if err := s.checkArguments(c, mode); err != nil {
			return err
		}
	}
	switch {
	case !known && name != "" && s.is("mode-first"):
		return newRefusal(wire.Unsupported, map[string]string{"feature": "deliveryMode", "value": mode})
	case name == "" && (s.is("stream-no-name") && mode == wire.ModePush || s.is("subscription-no-name") && mode == wire.ModeWebhook):
		return nil
	case !known && s.is("subscription-unknown-event") && mode == wire.ModeWebhook:
		return nil
	case !slices.Contains(offered, mode) && known && s.is("webhook-unchecked") && mode == wire.ModeWebhook:
		return nil
	case name == "" && s.is("poll-no-name-internal"):
		return newRefusal(wire.Internal, nil)
	case name == "":
		return s32602
	case !known && mode == wire.ModePoll && s.is("poll-unknown-event"):
		return nil
	case !known && s.is("not-found-no-kind"):
		return newRefusal(wire.NotFound, nil)
	case !known:
		return newRefusal(wire.NotFound, map[string]string{"kind": "event"})
	case !slices.Contains(offered, mode) && s.is("other-mode-method-unknown"):
		return newRefusal(wire.MethodNotFound, nil)
	case !slices.Contains(offered, mode) && s.is("push-unchecked") && mode == wire.ModePush:
		return nil
	case !slices.Contains(offered, mode):
		e := newRefusal(wire.Unsupported, map[string]string{"feature": "deliveryMode", "value": mode})
		if s.is("codes-both-families") {
			e.Code = wire.SEP.Code(wire.Unsupported)
		}
		return e
	}
	if err := s.checkArguments(c, mode); err != nil {
		return err
	}
	if cursor := c.cursorParam(); cursor != nil && s.is("numeric-cursor-error") {
		if _, err := strconv.Atoi(*cursor); err != nil && !strings.Contains(*cursor, ":") || *cursor == "" {
			return s32602
		}
	}
	if c.Params["mcpeGenConform"] != nil && (s.is("poll-unknown-members") && mode == wire.ModePoll || s.is("stream-unknown-members") && mode == wire.ModePush ||
		s.is("subscription-unknown-members") && mode == wire.ModeWebhook) {
		return s32602
	}
	if age, _, err := c.intParam("maxAgeMs"); err != nil && !s.is("max-age-any-form") || age < 0 && !s.is("max-age-negative") &&
		!(mode == wire.ModeWebhook && s.is("subscription-max-age-negative")) {
		return s32602
	}
	return nil
}

// checkArguments rejects arguments that do not match the inputSchema.
func (s *Server) checkArguments(c call, mode string) error {
	switch {
	case s.is("arguments-unchecked"), mode == wire.ModePush && s.is("stream-arguments-unchecked"),
		mode == wire.ModeWebhook && s.is("subscription-arguments-unchecked"):
		return nil
	}
	var args map[string]json.RawMessage
	if raw := c.Params["arguments"]; raw != nil && json.Unmarshal(raw, &args) != nil {
		return s32602
	}
	for key, value := range args {
		switch key {
		case "every":
			text := string(value)
			if s.is("argument-text-number") {
				text = strings.Trim(text, `"`)
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || (n < 1 || n > 1000) && !s.is("argument-bound") {
				return s32602
			}
		case "kind":
			var kind string
			err := json.Unmarshal(value, &kind)
			if s.is("argument-word-any-case") {
				kind = strings.ToLower(kind)
			}
			if err != nil || kind != "tick" && kind != "tock" && !s.is("argument-enum") &&
				!(mode == wire.ModeWebhook && s.is("subscription-argument-enum")) {
				return s32602
			}
		default:
			if !s.is("argument-unknown") && !(mode == wire.ModePush && s.is("stream-argument-unknown")) {
				return s32602
			}
		}
	}
	return nil
}

// extraEntries is the number of earlier entries that a fault adds.
const extraEntries = 50

// skippedEntries is the number of entries that a fault skips in a poll.
const skippedEntries = 5

// startOf returns the position at which a call begins, according to its cursor and maxAgeMs.
func (s *Server) startOf(c call, head int) (from int, truncated bool) {
	cursor := c.cursorParam()
	if cursor == nil {
		_, absent, _ := c.intParam("maxAgeMs")
		stream, hook := c.Method == wire.MethodStream, c.Method == wire.MethodSubscribe
		if stream && (s.is("stream-begins-history") || !absent && s.is("max-age-stream-history")) ||
			hook && (s.is("subscription-begins-history") || !absent && s.is("max-age-subscription-history")) {
			return max(head-extraEntries, 0), false
		}
		return head, false
	}
	from, known := position(c.stringParam("name"), *cursor)
	if !known || from > head {
		return head, true
	}
	if oldest := head - s.o.Ring; s.o.Ring > 0 && from < oldest {
		from, truncated = oldest, true
	}
	switch evicted := s.o.Ring == 0 && from < head-20; {
	case evicted && s.is("evicted-unnoticed"):
		from = head - 20
	case evicted && s.is("evicted-head"):
		from = head
	}
	ignored := s.is("max-age-ignored") || s.is("stream-max-age-ignored") && c.Method == wire.MethodStream ||
		s.is("subscription-max-age-ignored") && c.Method == wire.MethodSubscribe
	if s.is("subscription-cursor-ignored") && c.Method == wire.MethodSubscribe {
		return head, false
	}
	if age, absent, _ := c.intParam("maxAgeMs"); !absent && !ignored {
		truncated = truncated || s.is("max-age-truncated")
		events, _, _ := s.eventsAfter(from)
		for _, e := range events {
			if s.now().Sub(e.at) > time.Duration(min(age, 1<<40))*time.Millisecond && c.stringParam("name") == "tick" {
				from, truncated = e.position, true
			}
		}
	}
	return from, truncated
}

func (s *Server) poll(ctx context.Context, c call) (any, error) {
	name := c.stringParam("name")
	if name == "" || typeModes[name] == nil {
		name = "spare" // with the fault "poll-unknown-event"
	}
	limit, absent, err := c.intParam("maxEvents")
	if err != nil || !absent && limit < 1 && !s.is("max-events-zero") || s.is("large-max-events-error") &&
		limit > 1000 {
		return nil, s32602
	}
	if absent || limit < 1 || s.is("max-events-ignored") {
		limit = 50
	}
	wait, _, err := c.intParam("timeoutMs")
	if err != nil || s.is("timeout-ms-error") && wait > 0 {
		return nil, s32602
	}
	s.delayPoll(ctx)
	if s.o.Busy && wait > 0 {
		s.occur(time.Now(), 1)
	}
	cursor := c.cursorParam()
	if cursor != nil {
		if _, known := position(name, *cursor); !known {
			foreign := strings.Contains(*cursor, ":") && typeModes[strings.Split(*cursor, ":")[0]] != nil
			if foreign && s.is("foreign-cursor-error") || !foreign && s.is("malformed-cursor-error") {
				return nil, s32602
			}
		}
	}
	_, appended, head := s.eventsAfter(0)
	from, truncated := s.startOf(c, head)
	if s.is("old-cursors-errors") && from < head-50 {
		return nil, s32602
	}
	if s.is("malformed-cursor-goes-unnoticed") && cursor != nil {
		if _, known := position(name, *cursor); !known {
			truncated = false
		}
	}
	_, ageless, _ := c.intParam("maxAgeMs")
	if cursor == nil && (s.is("poll-history") || !ageless && s.is("max-age-poll-history")) {
		from = max(head-extraEntries, 0)
	}
	if cursor == nil && s.is("poll-from-now-held") {
		wake := appended
		if !s.selects(c.Params["arguments"], wire.ModePoll) {
			wake = nil
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-time.After(time.Duration(wait) * time.Millisecond):
		}
	}
	if s.is("held-poll-waits") {
		appended = nil
	}
	if s.is("first-poll-ahead") && cursor == nil {
		from += skippedEntries
	}
	if cursor != nil && wait > 0 && (name == "tick" || s.is("held-poll-never-ends")) {
		// With these faults the poll waits even if something has occurred before it.
		if list, _, _ := s.eventsAfter(from); len(list) == 0 || s.is("held-poll-never-ends") || s.is("held-poll-waits") {
			if s.is("held-poll-never-ends") {
				appended, wait = nil, 1<<30
			}
			if wait > 30_000 {
				s.addHeld(1)
				defer s.addHeld(-1)
			}
			select {
			case <-appended:
				if s.is("held-poll-loses-event") || s.is("held-poll-one-of-burst") {
					from++
				}
			case <-ctx.Done():
			case <-time.After(time.Duration(wait) * time.Millisecond):
			}
		}
	} else if cursor != nil && wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(min(wait, 30_000)) * time.Millisecond):
		}
	}
	if s.is("cap-before-filter") && limit == 1 && len(c.Params["arguments"]) > len("{}") {
		return s.page("spare", cursor, from, 1, truncated), nil
	}
	if name == "tick" && !s.selects(c.Params["arguments"], wire.ModePoll) {
		if !s.is("poll-cursor-quiet-stuck") {
			_, _, from = s.eventsAfter(0)
		}
		return s.emptyPage(from, truncated), nil
	}
	return s.page(name, cursor, from, int(min(limit, 1000)), truncated), nil
}

// selects reports whether the arguments of a call select the events of tick in a mode. They select all or none.
func (s *Server) selects(args json.RawMessage, mode string) bool {
	var selection struct{ Kind string }
	_ = json.Unmarshal(args, &selection)
	return selection.Kind != "tock" || s.is("arguments-ignored-"+mode)
}

// addHeld adds n to the number of pending long polls.
func (s *Server) addHeld(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held += n
}

// emptyPage returns the result of a poll whose arguments exclude every event.
func (s *Server) emptyPage(next int, truncated bool) any {
	return map[string]any{"resultType": "complete", "events": []any{}, "cursor": cursorOf("tick", next), "truncated": truncated,
		"hasMore": false, "nextPollMs": 20}
}

// page returns a poll's result.
func (s *Server) page(name string, cursor *string, from, limit int, truncated bool) any {
	var found []event
	next := from
	if name == "tick" {
		if s.is("passed-events-lost") {
			s.mu.Lock()
			s.passed = max(s.passed, from)
			from = s.passed
			s.mu.Unlock()
		}
		found, _, _ = s.eventsAfter(from)
	}
	more := len(found) > limit
	list := []any{}
	for _, e := range found[:min(len(found), limit)] {
		if s.is("polls-leave-events-out") && e.position%3 == 0 || s.is("pages-two-leave-events-out") && limit == 2 && e.position%4 == 0 {
			next = e.position
			continue
		}
		if s.is("polls-stop") && e.position > 12 {
			break
		}
		o := s.occurrence(e)
		if s.is("poll-occurrence-cursor") {
			o["cursor"] = cursorOf(name, e.position)
		}
		list = append(list, o)
		next = e.position
	}
	if s.is("page-skips") && more {
		next++
	}
	if s.is("empty-poll-ahead") && name == "tick" && len(list) == 0 {
		next += skippedEntries
	}
	if s.is("cursor-stands-still") {
		next = from
	}
	s.mu.Lock()
	s.polls++
	first, odd := s.polls == 1, s.polls%2 == 1
	s.mu.Unlock()
	r := map[string]any{"resultType": "complete", "events": list, "cursor": cursorOf(name, next), "truncated": truncated,
		"hasMore": more && !s.is("has-more-lost") || s.is("has-more-end"), "nextPollMs": 20}
	switch {
	case s.is("events-null") && len(list) == 0:
		r["events"] = nil
	case s.is("poll-cursor-foreign"):
		r["cursor"] = cursorOf("spare", 1)
	case s.is("next-poll-ms-null"):
		r["nextPollMs"] = nil
	case s.is("no-next-poll-ms"):
		delete(r, "nextPollMs")
	case s.is("truncated-number"):
		r["truncated"] = 0
	case s.is("cursor-sometimes") && odd, s.is("poll-later-no-cursor") && cursor == nil && !first:
		r["cursor"] = nil
	}
	return r
}
