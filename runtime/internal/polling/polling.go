// Package polling reads the occurrences for a poll from the log of an event type or from its check: occurrences
// after the caller's cursor, and occurrences that arrive while the poll is held. Several polls may be held
// together.
//
// The server makes the checks of a poll and fills in a [Request]. Start at [Read], which serves one poll such as
// events/poll, and at [Any], which serves several for the tools that wait; both run a reader in a [topic.Loop].
package polling

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Type is the polled event type. Equal values are the same type.
type Type interface {
	eventtype.Type
	// Hold adds n to the number of held polls.
	Hold(n int)
	// Polled is called with the result of each poll.
	Polled(ctx context.Context, q *Request, a *Answer, err error)
}

// A Request is one poll after all checks.
type Request struct {
	Type   Type
	Sub    eventtype.Subscription
	Args   eventtype.Arguments
	Replay topic.Replay
	Head   store.Position // of the log when the request arrived
	// Limit bounds the occurrences, MaxPage the bytes of the answer, and Scan the entries that are examined.
	Limit, MaxPage, Scan int
	// Wait is the longest time that the poll is held; Closing ends it early.
	Wait    time.Duration
	Closing <-chan struct{}
	// Quiet is the time without a further occurrence after which [Any] returns; 0 returns immediately.
	Quiet time.Duration
	// NextPoll is the time until the caller's next poll, unless a check sets one.
	NextPoll time.Duration
	// Enter is called when the poll begins, and leave when it is over. In between, [Request.End] may be called.
	// Enter is nil for a poll that is never ended early.
	Enter func(ctx context.Context, q *Request) (leave func())

	cancel context.CancelCauseFunc // cancels the running poll
}

// End ends a running poll. Its caller only gets the error, even if the poll has found occurrences.
func (q *Request) End(reason *events.Error) { q.cancel(&ended{q, reason}) }

// An ended is the cause of a canceled poll context.
type ended struct {
	q      *Request
	reason *events.Error
}

func (e *ended) Error() string { return e.reason.Error() }

// enter makes the polls, which share one context, cancelable until leave is called.
func enter(ctx context.Context, polls ...*Request) (under context.Context, leave func()) {
	under, cancel := context.WithCancelCause(ctx)
	leaves := []func(){func() { cancel(nil) }}
	for _, q := range polls {
		if q.cancel = cancel; q.Enter != nil {
			leaves = append(leaves, q.Enter(under, q))
		}
	}
	return under, func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// endOf returns how a poll of the context was ended, or nil.
func endOf(ctx context.Context) *ended {
	var e *ended
	errors.As(context.Cause(ctx), &e)
	return e
}

// An Answer is the result of a poll.
type Answer struct {
	Out       []topic.Outcome
	Cursor    []byte // JSON
	Truncated bool
	More      bool
	NextPoll  time.Duration // negative to omit it

	// Passed is the position of the last passed entry, in the type's log if FromLog.
	Passed  store.Position
	FromLog bool
}

// Encode returns the encoded result (POLL-2). It omits occurrences that are withheld from this subscription; the
// caller logs them for the author (OCC-4).
func (a *Answer) Encode(stateless bool) json.RawMessage {
	size := 160 + len(a.Cursor)
	for i := range a.Out {
		if a.Out[i].Err() == nil {
			size += len(a.Out[i].Data()) + 256
		}
	}
	b := make([]byte, 0, size)
	b = append(b, '{')
	if stateless {
		b = append(b, `"resultType":"`+wire.ResultComplete+`",`...)
	}
	b = append(b, `"events":[`...)
	n := len(b)
	for _, o := range a.Out {
		if o.Err() != nil {
			continue
		}
		if len(b) > n {
			b = append(b, ',')
		}
		b = append(b, o.Item()...)
	}
	b = append(b, `],"cursor":`...)
	b = append(b, a.Cursor...)
	b = append(b, `,"truncated":`...)
	b = strconv.AppendBool(b, a.Truncated)
	b = append(b, `,"hasMore":`...)
	b = strconv.AppendBool(b, a.More)
	if a.NextPoll >= 0 {
		b = append(b, `,"nextPollMs":`...)
		b = strconv.AppendInt(b, a.NextPoll.Milliseconds(), 10)
	}
	return append(b, '}')
}

// pageOverhead is an upper bound on the size of a page without its occurrences.
const pageOverhead = topic.MaxCursor + 256

// Read reads the available occurrences and waits for more if the request allows it (POLL-9).
func Read(ctx context.Context, q *Request) (*Answer, error) {
	ctx, leave := enter(ctx, q)
	defer leave()
	r := newReader(ctx, q, nil)
	if q.Wait > 0 {
		r.wake = topic.NewWake()
	}
	r.limit, r.bytes = q.Limit, q.MaxPage-pageOverhead
	err := r.read()
	if e := endOf(ctx); e != nil {
		err = e.reason
	}
	q.Type.Polled(ctx, q, &r.a, err)
	if err != nil {
		return nil, err
	}
	return &r.a, nil
}

// A polled source reads for one poll.
type polled interface {
	topic.Parker
	// Fill reads the available occurrences, up to the bound.
	Fill(ctx context.Context, into []topic.Outcome, b topic.Bound) (topic.Pulled, error)
}

// A reader is the state of one poll.
type reader struct {
	q        *Request
	args     eventtype.Arguments // under the definition that the reader uses
	a        Answer
	ctx      context.Context
	deadline time.Time
	limit    int
	bytes    int // of the occurrences together

	source polled
	log    *topic.Reader // one of these two is the source
	check  *feed.Poll
	wake   topic.Wake // nil for a poll that is not held
	held   bool       // whether it has waited
	goes   bool       // continues after it found an occurrence
	lost   bool       // entries at or after its cursor were lost
	err    error
}

func newReader(ctx context.Context, q *Request, wake topic.Wake) *reader {
	return &reader{q: q, args: q.Args, ctx: ctx, deadline: time.Now().Add(q.Wait), wake: wake}
}

func (r *reader) read() error {
	replays, err := r.open()
	if err != nil {
		return err
	}
	defer r.source.Close()
	if replays {
		defer r.holds(false)
		topic.Loop{Source: r.source, Wake: r.wake, Stop: r.q.Closing}.Run(r.ctx, r.turn)
	}
	r.a.Cursor = r.source.Cursor()
	r.end()
	return r.err
}

// end adds the sources' values to the answer.
func (r *reader) end() {
	if r.log != nil {
		r.a.Passed, r.a.FromLog = r.log.Position(), true
	}
	r.a.NextPoll = r.q.NextPoll
	if r.check != nil && r.check.NextPoll() > 0 {
		r.a.NextPoll = r.check.NextPoll()
	}
}

// holds updates the number of held polls.
func (r *reader) holds(now bool) {
	switch {
	case now && !r.held:
		r.q.Type.Hold(1)
	case !now && r.held:
		r.q.Type.Hold(-1)
	}
	r.held = now
}

// open determines the start, in the type's log or in the upstream of a check. replays is false if there is nothing
// to read.
func (r *reader) open() (replays bool, err error) {
	q := r.q
	if q.Args.Def.Check() != nil {
		if r.a.Truncated, err = r.ask(q.Replay); err != nil {
			return false, err
		}
		r.lost = r.a.Truncated && q.Replay.Since == nil
		return r.check.Replays(), nil
	}
	st, err := q.Type.Topic().Start(r.ctx, q.Args.Of, q.Head, q.Replay)
	if err != nil {
		return false, err
	}
	log := q.Type.Topic().ReaderFrom(q.Args.Arguments, q.Sub.ID, r.wake, st)
	r.log, r.source, r.a.Truncated = &log, &log, st.Truncated
	return true, nil
}

// ask opens the poll of a check.
func (r *reader) ask(at topic.Replay) (truncated bool, err error) {
	q := r.q
	seat := feed.Seat{Feeds: q.Type.Feeds(), ID: q.Sub.ID, Principal: q.Sub.Principal, Bell: r.wake}
	check, truncated, err := seat.Feeds.Poll(r.ctx, seat, q.Args.Def.Check(), q.Args.Arguments, feed.Start{Replay: at, Head: q.Head})
	if err != nil {
		return false, err
	}
	r.check, r.source = check, check
	return truncated, nil
}

// turn reads, and returns whether to wait for more.
func (r *reader) turn() (topic.Turn, time.Time) {
	if !r.resume() {
		return topic.Over, time.Time{}
	}
	a := &r.a
	got, err := r.source.Fill(r.ctx, a.Out, topic.Bound{Outcomes: r.limit, Bytes: r.bytes, Scan: r.q.Scan})
	a.Out, a.More = got.Out, got.More
	a.Truncated, r.lost = a.Truncated || got.Gap, r.lost || got.Gap
	switch {
	case err != nil:
		r.err = err
		return topic.Over, time.Time{}
	case len(a.Out) > 0 && !r.goes || a.More: // after a long scan the caller polls again with its cursor
		return topic.Over, time.Time{}
	case r.check != nil && r.lost, r.last(time.Now()):
		return topic.Over, time.Time{}
	}
	until := r.deadline
	if r.check != nil {
		wait := r.check.NextPoll()
		if wait <= 0 {
			wait = r.q.Args.Def.Check().Interval
		}
		until = earlier(until, time.Now().Add(wait))
	}
	r.holds(true)
	return topic.Rest, until
}

// last reports whether the poll no longer waits.
func (r *reader) last(now time.Time) bool {
	select {
	case <-r.q.Closing:
		return true
	default:
		return !now.Before(r.deadline)
	}
}

// resume checks for changes that happened while the poll was waiting. It returns false if the poll is over. A poll of a log continues
// under another definition; a poll of a check ends and leaves that to the caller's next poll.
func (r *reader) resume() bool {
	if r.err = r.ctx.Err(); r.err != nil {
		return false
	}
	switch now := r.q.Type.Current(); {
	case now == r.args.Def:
		return true
	case now == nil:
		r.err = fault.NotFound("event")
		return false
	case r.check != nil:
		return false
	default:
		if r.args, r.err = eventtype.Reparse(now, r.args.JSON); r.err != nil {
			return false
		}
	}
	r.log.Rebind(r.args.Arguments)
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
