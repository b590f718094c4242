package server

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A pollAnswer is a poll's result before it is encoded.
type pollAnswer struct {
	out       []topic.Outcome
	cursor    []byte // JSON
	truncated bool
	more      bool
	nextPoll  time.Duration // negative for a result without it
}

// encode writes the result (POLL-2). Occurrences that this subscription cannot have are left out;
// the author hears of them (OCC-4).
func (a *pollAnswer) encode(stateless bool) json.RawMessage {
	size := 160 + len(a.cursor)
	for i := range a.out {
		if a.out[i].Err() == nil {
			size += len(a.out[i].Data()) + 256
		}
	}
	b := make([]byte, 0, size)
	b = append(b, '{')
	if stateless {
		b = append(b, `"resultType":"`+wire.ResultComplete+`",`...)
	}
	b = append(b, `"events":[`...)
	n := len(b)
	for _, o := range a.out {
		if o.Err() != nil {
			continue
		}
		if len(b) > n {
			b = append(b, ',')
		}
		b = append(b, o.Item()...)
	}
	b = append(b, `],"cursor":`...)
	b = append(b, a.cursor...)
	b = append(b, `,"truncated":`...)
	b = strconv.AppendBool(b, a.truncated)
	b = append(b, `,"hasMore":`...)
	b = strconv.AppendBool(b, a.more)
	if a.nextPoll >= 0 {
		b = append(b, `,"nextPollMs":`...)
		b = strconv.AppendInt(b, a.nextPoll.Milliseconds(), 10)
	}
	return append(b, '}')
}

// pageOverhead is more than what a page takes beside its occurrences.
const pageOverhead = topic.MaxCursor + 256

// pollRequest is one poll after all checks.
type pollRequest struct {
	et     *eventType
	args   arguments
	sub    Subscription
	limit  int
	bytes  int // of the occurrences together
	replay topic.Replay
	wait   time.Duration
	head   store.Position // of the log when the request arrived
}

// poll answers events/poll in the order of ERR-2.
func (s *Server) poll(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodePollParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	a, err := s.pollAnswer(ctx, r.Principal, &p)
	if err != nil {
		return nil, err
	}
	return a.encode(r.Stateless), nil
}

// pollAnswer is what the method and the read tools share.
func (s *Server) pollAnswer(ctx context.Context, principal string, p *wire.PollParams) (*pollAnswer, error) {
	ctx = hook.WithPrincipal(ctx, principal)
	et, d, err := s.lookup(ctx, principal, p.Name)
	if err != nil {
		s.polled(ctx, nil, false, err)
		return nil, err
	}
	a, err := s.pollType(ctx, principal, p, et, d)
	s.polled(ctx, et, err == nil && len(a.out) > 0, err)
	return a, err
}

func (s *Server) pollType(ctx context.Context, principal string, p *wire.PollParams, et *eventType, d *definition) (*pollAnswer, error) {
	wait := s.options.DefaultWait
	if p.TimeoutMs != nil {
		wait = topic.Milliseconds(*p.TimeoutMs)
	}
	if p.Cursor == nil && !d.info.NoReplay {
		wait = 0 // the bootstrap cursor is what is waited for (POLL-9)
	}
	q, err := s.pollRequest(ctx, principal, p, et, d, max(min(wait, s.options.MaxWait), 0))
	if err != nil {
		return nil, err
	}
	a, err := s.answer(ctx, q)
	if err != nil {
		return nil, err
	}
	if a.nextPoll <= 0 {
		a.nextPoll = d.options.nextPoll
	}
	s.logKept(ctx, a.out)
	return a, nil
}

// logKept tells the author of occurrences that a poll does not get (OCC-4).
func (s *Server) logKept(ctx context.Context, out []topic.Outcome) {
	for i := range out {
		if err := out[i].Err(); err != nil {
			s.log.Internal(ctx, "delivering to a poll", fault.Unseen{Err: err})
		}
	}
}

// pollRequest makes all checks of a poll that may be held for so long, and takes its lease.
func (s *Server) pollRequest(ctx context.Context, principal string, p *wire.PollParams,
	et *eventType, d *definition, wait time.Duration,
) (*pollRequest, error) {
	if !d.polls() {
		return nil, fault.UnsupportedMode(wire.ModePoll)
	}
	if err := et.Refuses(); err != nil {
		return nil, err
	}
	q := &pollRequest{et: et, limit: s.options.MaxEvents, bytes: s.options.MaxPage - pageOverhead,
		replay: topic.ReplayOf(p.Cursor, p.MaxAgeMs), wait: wait}
	q.head = et.Head()
	var err error
	if q.args, err = d.parse(p.Arguments); err != nil {
		return nil, err
	}
	if err := s.authorized(ctx, principal, q.args); err != nil {
		return nil, err
	}
	if p.MaxEvents != nil {
		q.limit = int(min(*p.MaxEvents, int64(s.options.MaxEventsCap)))
	}
	q.sub = identity(wire.ModePoll, principal, q.args)
	if err := s.leases.renew(ctx, et, q.sub, q.args, q.wait+d.options.lease); err != nil {
		return nil, fault.Typed(err)
	}
	return q, nil
}

// A polled source reads for one poll.
type polled interface {
	topic.Parker
	// Fill reads what there is, up to the bound.
	Fill(ctx context.Context, into []topic.Outcome, b topic.Bound) (topic.Pulled, error)
}

// answer reads what there is and waits for more where it may (POLL-9).
func (s *Server) answer(ctx context.Context, q *pollRequest) (*pollAnswer, error) {
	a := &pollAnswer{}
	r := &pollReader{s: s, q: q, a: a, ctx: ctx, deadline: time.Now().Add(q.wait)}
	replays, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.source.Close()
	if replays {
		defer r.holds(false)
		loop{source: r.source, wake: r.wake, stop: s.closing}.run(ctx, r.turn)
	}
	if r.check != nil {
		a.nextPoll = r.check.NextPoll()
	}
	a.cursor = r.source.Cursor()
	if r.log != nil && r.err == nil {
		s.leases.reached(q.sub.ID, r.log.Position())
	}
	return a, r.err
}

// A pollReader is the state of one poll.
type pollReader struct {
	s        *Server
	q        *pollRequest
	a        *pollAnswer
	ctx      context.Context
	deadline time.Time

	source polled
	log    *topic.Reader // one of these two is the source
	check  *feed.Poll
	wake   topic.Wake // nil for a poll that is not held
	held   bool       // it has waited
	err    error
}

// holds counts the poll among those that wait, or not any more.
func (r *pollReader) holds(now bool) {
	switch {
	case now && !r.held:
		r.q.et.held.Add(1)
	case !now && r.held:
		r.q.et.held.Add(-1)
	}
	r.held = now
}

// open finds the start: in the type's own log, or upstream, where the cursor says where to ask and
// nothing is remembered. Without replays there is nothing to read.
func (r *pollReader) open(ctx context.Context) (replays bool, err error) {
	q := r.q
	if q.wait > 0 && r.wake == nil {
		r.wake = topic.NewWake()
	}
	if q.args.def.check == nil {
		st, err := q.et.topic.Start(ctx, &q.args.def.Type, q.head, q.replay)
		if err != nil {
			return false, err
		}
		log := q.et.topic.Reader(q.args.Arguments, q.sub.ID, r.wake, st.Position)
		r.log, r.source, r.a.truncated = &log, &log, st.Truncated
		return true, nil
	}
	r.check, r.a.truncated, err = q.et.feeds.Poll(ctx, q.et.seat(q.sub, r.wake), q.args.def.check, q.args.Arguments, feed.Start{Replay: q.replay, Head: q.head})
	if err != nil {
		return false, err
	}
	r.source = r.check
	return r.check.Replays(), nil
}

// turn reads, and says whether to wait for more.
func (r *pollReader) turn() (turn, time.Time) {
	if !r.resume() {
		return over, time.Time{}
	}
	q, a := r.q, r.a
	got, err := r.source.Fill(r.ctx, a.out, topic.Bound{Outcomes: q.limit, Bytes: q.bytes, Scan: r.s.options.ScanLimit})
	a.out, a.more = got.Out, got.More
	a.truncated = a.truncated || got.Gap
	switch {
	case err != nil:
		r.err = err
		return over, time.Time{}
	case len(a.out) > 0 || a.more: // after a long scan the caller comes back with its cursor
		return over, time.Time{}
	case r.check != nil && a.truncated, !time.Now().Before(r.deadline), r.s.isClosed():
		return over, time.Time{}
	}
	until := r.deadline
	if r.check != nil {
		wait := r.check.NextPoll()
		if wait <= 0 {
			wait = q.args.def.options.nextPoll
		}
		if next := time.Now().Add(wait); next.Before(until) {
			until = next
		}
	}
	r.holds(true)
	return rest, until
}

// resume looks at what may have changed while the poll waited; false when it is over. A poll of a log
// goes on under another definition; one of a check leaves that to the caller's next poll.
func (r *pollReader) resume() bool {
	q := r.q
	if r.err = r.ctx.Err(); r.err != nil {
		return false
	}
	d := q.et.current()
	switch {
	case d == q.args.def:
		return true
	case d == nil:
		r.err = fault.NotFound("event")
		return false
	case r.check != nil:
		return false
	}
	args, err := d.reparse(q.args.JSON)
	if err != nil {
		r.err = err
		return false
	}
	r.log.Rebind(args.Arguments)
	q.args = args
	return true
}
