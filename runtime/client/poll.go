package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// runPoll is the poll loop (CLI-3).
func runPoll(ctx context.Context, s *subscription, sess *session) error {
	o := &s.c.opts
	for resuming := true; ; resuming = false {
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
		if res.HasMore && (moved || len(res.Events) > 0) {
			continue // without progress "more" would never end
		}
		if err := sleep(ctx, max(res.nextPoll(), o.PollFloor)); err != nil {
			return err
		}
	}
}

// A pollResult is a wire.PollResult read leniently: one strange occurrence must not hide the others,
// and other languages write whole numbers as 5000.0.
type pollResult struct {
	Events     []json.RawMessage `json:"events"`
	Cursor     *string           `json:"cursor"`
	Truncated  bool              `json:"truncated"`
	HasMore    bool              `json:"hasMore"`
	NextPollMs json.Number       `json:"nextPollMs"`
}

// nextPoll is the wait that the server asks for, within bounds.
func (r *pollResult) nextPoll() time.Duration {
	ms, err := r.NextPollMs.Float64()
	if err != nil || !(ms > 0) {
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
	var res pollResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return nil, fmt.Errorf("client: result of %s: %w", wire.MethodPoll, err)
	}
	return &res, nil
}

// takeBatch hands a poll's occurrences over. Only with the last of them is the new cursor reached.
func (s *subscription) takeBatch(ctx context.Context, res *pollResult) error {
	if res.Truncated {
		if err := s.gap(ctx, nil); err != nil {
			return err
		}
	}
	for _, raw := range res.Events {
		if err := s.takeRaw(ctx, raw, false); err != nil {
			return err
		}
	}
	s.reach(res.Cursor)
	s.progress()
	return nil
}
