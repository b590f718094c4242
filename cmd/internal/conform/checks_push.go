package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var pushChecks = []check{
	{name: "stream-active", id: "PUSH-1", title: "A stream begins with active", needs: needPush, run: checkActive},
	{name: "stream-id", id: "PUSH-2", title: "Notifications have the request's id, a number or a string", needs: needPush, run: checkStreamIDs},
	{name: "stream-several", id: "PUSH-10", title: "A caller can have several streams", needs: needPush, run: checkSeveral},
	{name: "stream-content-type", id: "PUSH-11", title: "A stream is text/event-stream", needs: needPush | needHTTP, run: checkEventStream},
	{name: "stream-cancel", id: "PUSH-8", title: "The server sends nothing after a stream was cancelled",
		needs: needPush | needStdio, run: checkCancelled},
	{name: "stream-break", id: "PUSH-8", title: "The server continues after a client has disconnected",
		needs: needPush | needHTTP, run: checkBrokenOff},
	{name: "held-cancel", id: "POLL-9", title: "A held poll can be cancelled",
		needs: needPoll | needReplay | needStdio, run: checkHeldCancelled},
	{name: "held-timeout", id: "POLL-9", title: "The server responds to a held poll within its timeout", needs: needPoll | needReplay, run: checkHeldEnds},
	{name: "held-wakes", id: "POLL-9", title: "An occurrence ends a held poll", needs: needPoll | needReplay | needOccurred, run: checkHeldAnswers},
}

// openStream opens a stream and returns its first message.
func (r *run) openStream(ctx context.Context, s *subject, id json.RawMessage, more map[string]any) (*flow, *exchange, error) {
	f, x, err := r.firstMessage(ctx, request{id: id, method: wire.MethodStream, params: s.params(more)})
	if err == nil && x.refusal != nil {
		f.stop()
		err = x.refusal
	}
	return f, x, err
}

// firstMessage sends an events/stream request and returns the first message of the stream. The caller stops the flow.
func (r *run) firstMessage(ctx context.Context, q request) (*flow, *exchange, error) {
	f, x, err := r.open(ctx, q)
	if err != nil {
		return nil, x, err
	}
	waiting, cancel := context.WithTimeout(ctx, r.o.pace.call)
	defer cancel()
	x.status, x.contentType = f.status, f.contentType
	m, ok := f.await(waiting, func(message) bool { return true })
	if !ok {
		f.stop()
		if _, ended, err := f.messages(); ended && err != nil {
			return nil, x, err
		}
		return nil, x, x.violation("notifications/events/active", "nothing")
	}
	x.answer = m
	if m.isResponse() {
		r.noteRefusal(ctx, q, x)
	}
	return f, x, nil
}

// openActive opens a stream and checks that its first message is a valid active notification.
func (r *run) openActive(ctx context.Context, s *subject, more map[string]any) (*flow, *exchange, error) {
	f, x, err := r.openStream(ctx, s, nil, more)
	if err != nil {
		return nil, x, err
	}
	err = wellBegun(x)
	if err != nil {
		f.stop()
		return nil, x, err
	}
	return f, x, nil
}

func wellBegun(x *exchange) error {
	if err := x.refused(wire.NotificationActive); err != nil {
		return err
	}
	if x.answer.method != wire.NotificationActive {
		return x.violation(wire.NotificationActive+" first", "%s", wire.Shown(x.answer.method))
	}
	if _, err := stringOrNull(x, x.answer.params, "cursor"); err != nil {
		return err
	}
	_, err := boolMember(x, x.answer.params, "truncated")
	return err
}

func checkActive(ctx context.Context, r *run) error {
	f, _, err := r.openActive(ctx, r.push, map[string]any{"cursor": nil})
	if err == nil {
		f.stop()
	}
	return err
}

func checkStreamIDs(ctx context.Context, r *run) error {
	for _, id := range []string{`880088`, `"880089"`} {
		f, x, err := r.openStream(ctx, r.push, json.RawMessage(id), map[string]any{"cursor": nil})
		if err != nil {
			return err
		}
		f.stop()
		if got := x.answer.subscription(); string(got) != id {
			return x.violation(fmt.Sprintf("_meta[%q] to be %s", wire.MetaSubscriptionID, id), "%s", orNone(got))
		}
	}
	return nil
}

func checkSeveral(ctx context.Context, r *run) error {
	for range 3 {
		f, x, err := r.openStream(ctx, r.push, nil, map[string]any{"cursor": nil})
		if err != nil {
			return err
		}
		defer f.stop()
		if err := x.refused("another stream"); err != nil {
			return err
		}
	}
	return nil
}

func checkEventStream(ctx context.Context, r *run) error {
	f, x, err := r.openStream(ctx, r.push, nil, map[string]any{"cursor": nil})
	if err != nil {
		return err
	}
	defer f.stop()
	if kind, _, _ := mime.ParseMediaType(x.contentType); kind != "text/event-stream" || x.status != 200 {
		return x.violation("200 text/event-stream", "%d %s", x.status, wire.Shown(x.contentType))
	}
	return nil
}

func checkCancelled(ctx context.Context, r *run) error {
	f, x, err := r.openActive(ctx, r.push, map[string]any{"cursor": nil})
	if err != nil {
		return err
	}
	before, _, _ := f.messages()
	f.stop()
	pause(ctx, r.o.pace.settle)
	settled, _, _ := f.messages()
	// Live events of the type continue meanwhile.
	r.awaitPushed(ctx, r.o.pace.maxLag)
	pause(ctx, r.o.pace.settle) // each stream receives an occurrence in turn
	after, _, _ := f.messages()
	for _, m := range after[len(before):] {
		if m.isResponse() {
			return (&exchange{request: x.request, answer: m}).violation("no answer to a cancelled request", "one")
		}
	}
	if len(after) > len(settled) {
		return (&exchange{request: x.request, answer: after[len(settled)]}).violation("nothing after the cancellation", "%s",
			after[len(settled)].method)
	}
	return nil
}

// awaitPushed waits until the watched stream receives another occurrence or the given time has elapsed.
func (r *run) awaitPushed(ctx context.Context, most time.Duration) {
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if r.push == nil || r.push.stream == nil {
		<-waiting.Done()
		return
	}
	kept, _, _ := r.push.stream.messages()
	n := 0
	r.push.stream.await(waiting, func(message) bool { n++; return n > len(kept)+1 })
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func checkBrokenOff(ctx context.Context, r *run) error {
	f, _, err := r.openActive(ctx, r.push, map[string]any{"cursor": nil})
	if err != nil {
		return err
	}
	f.stop()
	pause(ctx, r.o.pace.settle)
	return r.expectResult(ctx, wire.MethodList, nil, "the list")
}

// checkHeartbeats waits for the first heartbeat, and checks that all of them have a cursor if active had one.
func checkHeartbeats(ctx context.Context, r *run) error {
	s := r.push
	if s.stream == nil {
		return skipf("the stream could not be watched")
	}
	waiting, cancel := context.WithDeadline(ctx, s.began.Add(r.o.pace.heartbeat))
	defer cancel()
	_, ok := s.stream.await(waiting, func(m message) bool { return m.method == wire.NotificationHeartbeat })
	x := &exchange{request: s.opened}
	_, ended, _ := s.stream.messages()
	switch {
	case ok:
	case ended:
		return x.violation("a heartbeat", "the end of the stream")
	case s.stream.hasComments():
		return x.violation(wire.NotificationHeartbeat+" within 30 s", "only SSE comments, which are not heartbeats")
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return x.violation("a heartbeat within 30 s", "none in %v", r.o.pace.heartbeat)
	}
	first := ""
	for _, m := range mustMessages(s.stream) {
		x = &exchange{request: s.opened, answer: m}
		switch m.method {
		case wire.NotificationActive:
			first = string(member(m.params, "cursor"))
		case wire.NotificationHeartbeat:
			c, err := stringOrNull(x, m.params, "cursor")
			if err != nil {
				return err
			}
			if first != "" && (first == "null") != (c == nil) {
				return x.violation("a cursor as active had one", "%s", orNone(member(m.params, "cursor")))
			}
		}
	}
	return nil
}

func mustMessages(f *flow) []message {
	kept, _, _ := f.messages()
	return kept
}
