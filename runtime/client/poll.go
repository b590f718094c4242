package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// runPoll runs the poll loop (CLI-3).
func runPoll(ctx context.Context, s *subscription, sess *session) error {
	o := &s.c.opts
	empty := 0 // consecutive pages with hasMore but nothing new
	for resuming := true; ; resuming = false {
		before := s.advanceCount()
		p := wire.PollParams{Name: s.name, Arguments: s.args, Cursor: s.resumeCursor()}
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
		if len(res.Events) == 0 && !res.Truncated {
			s.moveCursor(res.Cursor) // known when Subscribe returns
		}
		s.recordAccepted()
		if err := s.takeBatch(ctx, res); err != nil {
			return err
		}
		moved := res.Cursor != nil && (p.Cursor == nil || *res.Cursor != *p.Cursor)
		fresh := s.advanceCount() > before
		if fresh {
			empty = 0
		}
		if res.HasMore && (moved || fresh) {
			if err := s.pauseBetweenPages(ctx, empty); err != nil {
				return err
			}
			empty++
			continue // without progress, hasMore could keep this loop going forever
		}
		empty = 0
		if err := sleep(ctx, max(res.nextPollWait(), o.PollFloor)); err != nil {
			return err
		}
	}
}

// Limits for the pauses between pages that have hasMore set but no new occurrences. A server returns such pages when it
// scans a long log in bounded steps, or when it makes no progress.
const (
	freePages    = 8
	maxPagePause = 10 * time.Second
)

// pauseBetweenPages waits before the next page if too many pages had no new occurrences. It records the reason in the
// status.
func (s *subscription) pauseBetweenPages(ctx context.Context, pages int) error {
	if pages < freePages {
		return nil
	}
	s.failed(fmt.Errorf("client: %s: the server says there is more, but %d pages had nothing new", wire.MethodPoll, pages))
	slow := Backoff{Min: s.c.opts.PollFloor, Max: max(s.c.opts.PollFloor, maxPagePause)}
	return sleep(ctx, slow.delay(pages-freePages))
}

// advanceCount returns the number of occurrences that were new or were read again after a truncation.
func (s *subscription) advanceCount() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.advances
}

// A pollResult is a leniently decoded wire.PollResult. Decoding is lenient because a malformed occurrence must not
// affect the others and some languages encode integers as 5000.0.
type pollResult struct {
	Events     []json.RawMessage
	Cursor     *string
	Truncated  bool
	HasMore    bool
	NextPollMs json.RawMessage
}

// nextPollWait returns the wait that the server requests, limited to maxWait.
func (r *pollResult) nextPollWait() time.Duration {
	ms, err := strconv.ParseFloat(string(r.NextPollMs), 64)
	if !(ms > 0) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(ms, float64(maxWait.Milliseconds()))) * time.Millisecond
}

func (s *subscription) pollOnce(ctx context.Context, sess *session, p wire.PollParams) (*pollResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.opts.CallTimeout+s.c.opts.LongPoll, errTimeout(wire.MethodPoll))
	defer cancel()
	raw, err := sess.call(ctx, wire.MethodPoll, p, s.newCall(nil))
	if err != nil {
		return nil, err
	}
	res, err := decodePoll(raw)
	if err != nil {
		return nil, &AnswerError{Method: wire.MethodPoll, Err: err}
	}
	return res, nil
}

func decodePoll(raw json.RawMessage) (*pollResult, error) {
	m, err := wire.DecodeMembers(raw)
	if err != nil {
		return nil, err
	}
	res := &pollResult{NextPollMs: m["nextPollMs"]}
	if _, ok := m["events"]; !ok && m["cursor"] == nil && m["nextPollMs"] == nil {
		// Servers that omit an empty list send at least one of the other two members. A result without any of them is
		// not a poll result.
		return nil, errors.New(`no member "events"`)
	}
	if res.Events, err = m.Elements("events"); err != nil {
		return nil, err
	}
	for name, into := range map[string]any{"cursor": &res.Cursor, "truncated": &res.Truncated, "hasMore": &res.HasMore} {
		if err := m.Read(name, into); err != nil {
			return nil, err
		}
	}
	return res, checkCursor(res.Cursor)
}

// takeBatch queues the occurrences of a poll result. The cursor advances only after the last one.
func (s *subscription) takeBatch(ctx context.Context, res *pollResult) error {
	if res.Truncated {
		if err := s.handleTruncation(ctx, res.Cursor, nil); err != nil {
			return err
		}
	}
	for _, raw := range res.Events {
		if err := s.queueRaw(ctx, raw, false); err != nil {
			return err
		}
	}
	s.moveCursor(res.Cursor)
	s.recordProgress()
	return nil
}
