package server

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A pollAnswer is a poll's result before it is encoded.
type pollAnswer struct {
	out       []outcome
	cursor    []byte // JSON
	truncated bool
	more      bool
	nextPoll  time.Duration
}

// encode writes the result (POLL-2). Occurrences that this subscription cannot have are left out;
// the author hears of them (OCC-4).
func (a *pollAnswer) encode(stateless bool) json.RawMessage {
	size := 160 + len(a.cursor)
	for i := range a.out {
		if a.out[i].err == nil {
			size += len(a.out[i].v.data) + 256
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
		if o.err != nil {
			continue
		}
		if len(b) > n {
			b = append(b, ',')
		}
		b = append(b, o.rec.pollItem(o.v)...)
	}
	b = append(b, `],"cursor":`...)
	b = append(b, a.cursor...)
	b = append(b, `,"truncated":`...)
	b = strconv.AppendBool(b, a.truncated)
	b = append(b, `,"hasMore":`...)
	b = strconv.AppendBool(b, a.more)
	b = append(b, `,"nextPollMs":`...)
	b = strconv.AppendInt(b, max(a.nextPoll.Milliseconds(), 0), 10)
	return append(b, '}')
}

// pageOverhead is more than what a page takes beside its occurrences.
const pageOverhead = maxCursor + 256

// pollRequest is one poll after all checks.
type pollRequest struct {
	et     *eventType
	args   *arguments
	sub    Subscription
	limit  int
	bytes  int // of the occurrences together
	replay replay
	wait   time.Duration
	head   store.Position // of the log when the request arrived
}

// poll answers events/poll in the order of ERR-2.
func (s *Server) poll(ctx context.Context, r *Request) (json.RawMessage, error) {
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
		return nil, err
	}
	if !d.polls() {
		return nil, fault.UnsupportedMode(wire.ModePoll)
	}
	if err := et.refuses(); err != nil {
		return nil, err
	}
	q := &pollRequest{et: et, limit: s.options.MaxEvents, bytes: s.options.MaxPage - pageOverhead, replay: replayOf(p.Cursor, p.MaxAgeMs), wait: s.options.DefaultWait}
	if et.topic != nil {
		_, q.head = et.topic.bounds()
	}
	if q.args, err = d.parse(p.Arguments); err != nil {
		return nil, err
	}
	if err := s.authorized(ctx, principal, q.args); err != nil {
		return nil, err
	}
	if p.MaxEvents != nil {
		q.limit = int(min(*p.MaxEvents, int64(s.options.MaxEventsCap)))
	}
	if p.TimeoutMs != nil {
		q.wait = milliseconds(*p.TimeoutMs)
	}
	q.wait = max(min(q.wait, s.options.MaxWait), 0)
	if p.Cursor == nil && !d.info.NoReplay {
		q.wait = 0 // the bootstrap cursor is what is waited for (POLL-9)
	}
	q.sub = identity(wire.ModePoll, principal, q.args)
	if err := s.leases.renew(ctx, et, q.sub, q.args, q.wait+d.options.lease); err != nil {
		return nil, asRefusal(err)
	}
	var a *pollAnswer
	if d.check != nil {
		a, err = s.pollCheck(ctx, q)
	} else {
		a, err = s.pollLog(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	if a.nextPoll <= 0 {
		a.nextPoll = d.options.nextPoll
	}
	for _, o := range a.out {
		if o.err != nil {
			s.log.Internal(ctx, "delivering to a poll", fault.Unseen{Err: o.err})
		}
	}
	return a, nil
}

// pollLog answers from the type's own log, and waits there when it may.
func (s *Server) pollLog(ctx context.Context, q *pollRequest) (*pollAnswer, error) {
	t, d := q.et.topic, q.args.def
	st, err := resolveCursor(ctx, t, d, q.head, q.replay)
	if err != nil {
		return nil, err
	}
	r := reader{topic: t, args: q.args, id: q.sub.ID, pos: st.pos, slot: -1}
	a := &pollAnswer{truncated: st.truncated}
	defer func() { a.cursor = logCursor(d, t.log.Epoch(), r.pos) }()
	scan := s.options.ScanLimit
	read := func() error {
		for {
			p, err := r.nextWithin(ctx, a.out, q.limit, q.bytes, scan)
			if err != nil {
				return err
			}
			a.out, a.more = p.out, p.more
			if !p.gap {
				break
			}
			a.truncated = a.truncated || !d.info.NoReplay
		}
		if a.more && len(a.out) >= q.limit {
			// More entries are no news when none of them matches.
			more, err := r.waiting(ctx, scan)
			a.more = more
			return err
		}
		return nil
	}
	if err := read(); err != nil || q.wait == 0 || len(a.out) > 0 || a.more {
		return a, err
	}
	return a, s.holdPoll(ctx, q, &r, a, read)
}

// holdPoll parks until something matches or the time is over (POLL-9).
func (s *Server) holdPoll(ctx context.Context, q *pollRequest, r *reader, a *pollAnswer, read func() error) error {
	timer := time.NewTimer(q.wait)
	defer timer.Stop()
	r.wake = make(chan struct{}, 1)
	defer func() { r.topic.detach(r) }()
	for {
		if r.args.def != q.et.current() {
			r.topic.detach(r)
			if err := q.rebind(r); err != nil {
				return err
			}
		}
		if r.topic.park(r) {
			over := false
			select {
			case <-ctx.Done():
				r.topic.unpark(r)
				return ctx.Err()
			case <-s.closing:
				over = true
			case <-timer.C:
				over = true
			case <-r.wake:
			}
			r.topic.unpark(r)
			if q.et.current() == nil {
				return fault.NotFound("event")
			}
			if over {
				q.wait = 0
			}
			if r.args.def != q.et.current() {
				r.topic.detach(r)
				if err := q.rebind(r); err != nil {
					return err
				}
			}
		}
		if err := read(); err != nil || len(a.out) > 0 || q.wait == 0 {
			return err
		}
		if a.more {
			return nil // a long scan: the caller comes back with its cursor
		}
	}
}

// rebind takes the arguments under the type's present definition.
func (q *pollRequest) rebind(r *reader) error {
	d := q.et.current()
	if d == nil {
		return fault.NotFound("event")
	}
	args, err := d.reparse(q.args.json)
	if err != nil {
		return err
	}
	q.args, r.args = args, args
	return nil
}
