package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// poll handles events/poll. It checks the request in the order of ERR-2.
func (s *Server) poll(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodePollParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	a, err := s.pollAnswer(hook.WithPrincipal(ctx, r.Principal), &p)
	if err != nil {
		return nil, err
	}
	return a.Encode(r.Stateless), nil
}

// pollAnswer runs a poll for events/poll or a read tool. ctx contains the principal.
func (s *Server) pollAnswer(ctx context.Context, p *wire.PollParams) (*polling.Answer, error) {
	q, err := s.pollRequest(ctx, p, func(d *definition) time.Duration {
		wait := s.options.DefaultWait
		if p.TimeoutMs != nil {
			wait = topic.Milliseconds(*p.TimeoutMs)
		}
		if p.Cursor == nil && !d.info.NoReplay {
			wait = 0 // the caller waits only for the bootstrap cursor (POLL-9)
		}
		return max(min(wait, s.options.MaxWait), 0)
	})
	if err != nil {
		return nil, err
	}
	return polling.Read(ctx, q)
}

// pollRequest validates a poll and renews its lease. wait returns how long the poll may be held, and may change the
// arguments of p.
func (s *Server) pollRequest(ctx context.Context, p *wire.PollParams, wait func(*definition) time.Duration) (*polling.Request, error) {
	principal := hook.Principal(ctx)
	et, d, err := s.lookup(ctx, principal, p.Name)
	var q *polling.Request
	if err == nil {
		q, err = s.checkPoll(ctx, principal, p, et, d, wait(d))
	}
	if err != nil {
		s.countPoll(ctx, et, false, err)
		return nil, err
	}
	return q, nil
}

func (s *Server) checkPoll(ctx context.Context, principal string, p *wire.PollParams, et *eventType, d *definition, wait time.Duration) (*polling.Request, error) {
	if !d.offersPoll() {
		return nil, fault.UnsupportedMode(wire.ModePoll)
	}
	decisions := s.leases.Decisions()
	if err := et.Refuses(); err != nil {
		return nil, err
	}
	head := et.Head()
	args, err := s.parseArguments(ctx, principal, d, p.Arguments)
	if err != nil {
		return nil, err
	}
	replay := topic.ReplayOf(p.Cursor, p.MaxAgeMs)
	if head, err = et.topic.Now(ctx, d.Kernel(), head, replay); err != nil {
		return nil, err
	}
	limit := s.options.MaxEvents
	if p.MaxEvents != nil {
		limit = int(min(*p.MaxEvents, int64(s.options.MaxEventsCap)))
	}
	sub := eventtype.Identify(wire.ModePoll, principal, "", args)
	l, err := s.leases.Renew(ctx, et, sub, args, wait+d.options.lease)
	if err != nil {
		return nil, fault.Typed(err)
	}
	enter := func(ctx context.Context, q *polling.Request) (leave func()) {
		leave = l.Enter(q)
		if s.leases.Decisions() != decisions { // the hooks may have changed their decision meanwhile
			if e := s.access.Refused(ctx, principal, args); e != nil {
				q.End(e)
			}
		}
		return leave
	}
	return &polling.Request{Type: et, Sub: sub, Args: args,
		Replay: replay, Head: head, Limit: limit, MaxPage: s.options.MaxPage, Scan: s.options.ScanLimit,
		Wait: wait, Closing: s.closing, NextPoll: d.options.nextPoll, Access: s.access, Enter: enter}, nil
}

// Hold implements [polling.Type].
func (et *eventType) Hold(n int) { et.held.Add(int64(n)) }

func (et *eventType) Polled(ctx context.Context, q *polling.Request, a *polling.Answer, err error) {
	s := et.server
	s.countPoll(ctx, et, err == nil && len(a.Out) > 0, err)
	if err != nil {
		return
	}
	if a.FromLog {
		s.leases.Reached(q.Sub.ID, a.Passed)
	}
	for i := range a.Out { // report the withheld occurrences to the author (OCC-4)
		if err := a.Out[i].Err(); err != nil {
			s.log.Internal(ctx, "delivering to a poll", fault.Unseen{Err: err})
		}
	}
}
