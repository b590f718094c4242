package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// runPoll is the poll loop (CLI-3).
func runPoll(ctx context.Context, s *subscription, sess *session) error {
	o := &s.c.opts
	empty := 0 // pages in a row that promised more and brought nothing new
	for resuming := true; ; resuming = false {
		before := s.received()
		p := wire.PollParams{Name: s.name, Arguments: s.args, Cursor: s.resume()}
		if o.MaxEvents > 0 {
			p.MaxEvents = &o.MaxEvents
		}
		if o.LongPoll > 0 {
			held := o.LongPoll.Milliseconds()
			p.TimeoutMs = &held
		}
		if resuming && p.Cursor != nil {
			p.MaxAgeMs = s.maxAge()
		}
		res, err := s.pollOnce(ctx, sess, p)
		if err != nil {
			return err
		}
		s.established()
		if err := s.takeBatch(ctx, res); err != nil {
			return err
		}
		moved := res.Cursor != nil && (p.Cursor == nil || *res.Cursor != *p.Cursor)
		fresh := s.received() > before
		if fresh {
			empty = 0
		}
		if res.HasMore && (moved || fresh) {
			if err := s.pause(ctx, empty); err != nil {
				return err
			}
			empty++
			continue // without progress "more" would never end
		}
		empty = 0
		if err := sleep(ctx, max(res.nextPoll(), o.PollFloor)); err != nil {
			return err
		}
	}
}

// Pauses between pages that promise more and bring nothing new: a scan of a long log in bounded steps
// has them, and so has a server that never gets further.
const (
	freePages    = 8
	maxPagePause = 10 * time.Second
)

// pause waits before the next of so many pages without anything new, and says so in the status.
func (s *subscription) pause(ctx context.Context, pages int) error {
	if pages < freePages {
		return nil
	}
	s.failed(fmt.Errorf("client: %s: the server promises more, but %d pages brought nothing new", wire.MethodPoll, pages))
	slow := Backoff{Min: s.c.opts.PollFloor, Max: max(s.c.opts.PollFloor, maxPagePause)}
	return slow.wait(ctx, pages-freePages, 0)
}

// received is how many new occurrences there have been.
func (s *subscription) received() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Received
}

// A pollResult is a wire.PollResult read leniently: one strange occurrence must not hide the others,
// and other languages write whole numbers as 5000.0.
type pollResult struct {
	Events     *[]json.RawMessage `json:"events"`
	Cursor     *string            `json:"cursor"`
	Truncated  bool               `json:"truncated"`
	HasMore    bool               `json:"hasMore"`
	NextPollMs json.RawMessage    `json:"nextPollMs"`
}

// hasMember reports whether an object has a member, be it null, which is an empty list to servers in Go.
func hasMember(object json.RawMessage, name string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return false
	}
	_, ok := members[name]
	return ok
}

// nextPoll is the wait that the server asks for, within bounds.
func (r *pollResult) nextPoll() time.Duration {
	ms, err := strconv.ParseFloat(string(r.NextPollMs), 64)
	if !(ms > 0) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(ms, float64(maxWait.Milliseconds()))) * time.Millisecond
}

func (s *subscription) pollOnce(ctx context.Context, sess *session, p wire.PollParams) (*pollResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.opts.CallTimeout+s.c.opts.LongPoll, errTimeout(wire.MethodPoll))
	defer cancel()
	raw, err := sess.call(ctx, wire.MethodPoll, p, newCall(nil))
	if err != nil {
		return nil, err
	}
	return readPoll(raw)
}

func readPoll(raw json.RawMessage) (*pollResult, error) {
	var res pollResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return nil, &AnswerError{Method: wire.MethodPoll, Err: err}
	}
	if res.Events == nil && !hasMember(raw, "events") {
		return nil, &AnswerError{Method: wire.MethodPoll, Err: errors.New(`no member "events"`)}
	}
	if err := checkCursor(res.Cursor); err != nil {
		return nil, &AnswerError{Method: wire.MethodPoll, Err: err}
	}
	return &res, nil
}

// takeBatch hands a poll's occurrences over. Only with the last of them is the new cursor reached.
func (s *subscription) takeBatch(ctx context.Context, res *pollResult) error {
	if res.Truncated {
		if err := s.truncated(ctx, res.Cursor, nil); err != nil {
			return err
		}
	}
	if res.Events != nil {
		for _, raw := range *res.Events {
			if err := s.takeRaw(ctx, raw, false); err != nil {
				return err
			}
		}
	}
	s.reach(res.Cursor)
	s.progress()
	return nil
}
