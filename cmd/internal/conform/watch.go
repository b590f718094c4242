package conform

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Limits of concurrent watching.
const (
	maxWatched = 8
	enough     = 3 // occurrences of one type
)

// watchTypes polls and streams the first few types that offer each mode. It also chooses the types to test, which
// awaitOccurrence replaces once another type occurs. Its goroutines exit when ctx is done.
func (r *run) watchTypes(ctx context.Context) *sync.WaitGroup {
	var watchers sync.WaitGroup
	r.watchEnd = time.Now().Add(r.o.Wait)
	for i, s := range r.typesWith(wire.ModePoll) {
		if i == maxWatched {
			break
		}
		x, err := r.pollFirst(ctx, s)
		if err != nil {
			break
		}
		if r.bar(wire.ModePoll, x) {
			continue
		}
		if r.poll == nil || !r.poll.replay && s.replay {
			r.poll = s
		}
		watchers.Go(func() { r.followType(ctx, s) })
	}
	if list := r.typesWith(wire.ModePoll); r.poll == nil && len(list) > 0 && r.barred[wire.ModePoll] == nil {
		r.poll = list[0]
	}
	for i, s := range r.typesWith(wire.ModePush) {
		if i == maxWatched {
			break
		}
		q := request{method: wire.MethodStream, params: s.params(map[string]any{"cursor": nil})}
		f, x, err := r.open(ctx, q)
		if err == nil {
			waiting, cancel := context.WithTimeout(ctx, r.o.pace.settle)
			m, _ := f.await(waiting, func(message) bool { return true })
			cancel()
			if x.answer = m; m.isResponse() {
				r.noteRefusal(ctx, q, x)
			}
			if r.bar(wire.ModePush, x) {
				continue
			}
			s.stream, s.opened, s.began = f, x.request, time.Now()
		}
		if r.push == nil {
			r.push = s
		}
		if err != nil {
			break
		}
	}
	if list := r.typesWith(wire.ModeWebhook); len(list) > 0 {
		r.hook = list[0]
	}
	return &watchers
}

// bar reports whether the caller may not use a type in the mode, and keeps the reason.
func (r *run) bar(mode string, x *exchange) bool {
	if x.refusal == nil {
		return false
	}
	r.barred[mode] = x.refusal
	return true
}

// pollFirst sends the first poll of a type.
func (r *run) pollFirst(ctx context.Context, s *subject) (*exchange, error) {
	x, err := r.call(ctx, wire.MethodPoll, s.params(map[string]any{"cursor": nil}))
	var result wire.PollResult
	if err == nil && x.answer.err == nil && json.Unmarshal(x.answer.result, &result) == nil {
		s.first, s.replay = result.Cursor, result.Cursor != nil
	}
	return x, err
}

// followType polls a type until enough events have occurred.
func (r *run) followType(ctx context.Context, s *subject) {
	cursor := s.first
	for time.Now().Before(r.watchEnd) && ctx.Err() == nil {
		params := map[string]any{"cursor": cursor}
		if !s.replay {
			params["timeoutMs"] = 2000
		}
		x, page, err := r.pollQuietly(ctx, s, params)
		if err != nil {
			return
		}
		s.mu.Lock()
		for _, o := range polledOccurrences(x) {
			if len(s.seen) < 200 {
				s.seen = append(s.seen, o)
			}
		}
		n := len(s.seen)
		s.mu.Unlock()
		if n >= enough {
			return
		}
		cursor = page.Cursor
		pause(ctx, max(r.o.pace.poll, time.Duration(min(max(page.NextPollMs, 0), 1500))*time.Millisecond))
	}
}

// pollOccurrences returns the occurrences that polls have returned.
func (s *subject) pollOccurrences() []occurrence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[:len(s.seen):len(s.seen)]
}

// streamOccurrences returns the occurrences that the watched stream has received.
func (s *subject) streamOccurrences() []occurrence {
	if s.stream == nil {
		return nil
	}
	return s.stream.occurrences(s.opened)
}

// occurrences returns the occurrences that the flow has received as a stream, which the request opened.
func (f *flow) occurrences(request []byte) (list []occurrence) {
	for _, m := range mustMessages(f) {
		if m.method == wire.NotificationEvent {
			list = append(list, occurrence{m.params, &exchange{request: request, answer: m}})
		}
	}
	return list
}

// awaitOccurrence waits for occurrences in the mode of the needs, and selects their type as the type under test. It
// prefers two occurrences to one because two also show the order.
func (r *run) awaitOccurrence(ctx context.Context, n need) bool {
	mode, chosen, seen := wire.ModePoll, &r.poll, (*subject).pollOccurrences
	if n&needPush != 0 {
		mode, chosen, seen = wire.ModePush, &r.push, (*subject).streamOccurrences
	}
	if len(seen(*chosen)) >= 2 {
		return true
	}
	for {
		over := time.Now().After(r.watchEnd) || ctx.Err() != nil
		for _, s := range r.typesWith(mode) {
			if count := len(seen(s)); count >= 2 || over && count == 1 {
				*chosen = s
				return true
			}
		}
		if over {
			return false
		}
		pause(ctx, r.o.pace.poll/4)
	}
}

// awaitPolled polls a type until an event occurs, and returns all occurrences.
func (r *run) awaitPolled(ctx context.Context, s *subject) []occurrence {
	for s.has(wire.ModePoll) && len(s.pollOccurrences()) == 0 && time.Now().Before(r.watchEnd) && ctx.Err() == nil {
		pause(ctx, r.o.pace.poll/4)
	}
	return s.pollOccurrences()
}

// eventID returns the eventId of an occurrence, or "" if it has none.
func (o occurrence) eventID() string {
	var id string
	_ = json.Unmarshal(member(o.raw, "eventId"), &id)
	return id
}

// cursor returns the cursor of an occurrence, or nil.
func (o occurrence) cursor() *string {
	var c *string
	_ = json.Unmarshal(member(o.raw, "cursor"), &c)
	return c
}

func (o occurrence) violation(expected, got string, args ...any) error {
	return o.from.violation(expected, got, args...)
}
