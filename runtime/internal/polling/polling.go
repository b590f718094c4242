// Package polling serves polls. It reads the occurrences after the caller's cursor with a [reading.Reader]. A
// long poll also returns occurrences that arrive while it waits. Several polls can wait together.
//
// The server validates a poll and passes a [Request]. [Read] serves one poll, such as events/poll. [Any] serves several
// polls for the wait tools. Both run a reader in a [topic.Loop].
package polling

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/reading"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Type is the polled event type. Equal values represent the same type.
type Type interface {
	eventtype.Type
	// Hold adds n to the number of waiting polls.
	Hold(n int)
	// Polled is called with the result of each poll.
	Polled(ctx context.Context, q *Request, a *Answer, err error)
}

// A Request is a validated poll.
type Request struct {
	Type   Type
	Sub    eventtype.Subscription
	Args   eventtype.Arguments
	Replay topic.Replay
	Head   store.Position // of the log when the request arrived
	// Limit is the maximum number of occurrences, and Scan the maximum work, in the units of [topic.Bound]. MaxPage
	// is the maximum size of the answer in bytes, including its cursor and other members.
	Limit, MaxPage, Scan int
	// Wait is the maximum time to wait for occurrences. The wait ends early if Closing is closed.
	Wait    time.Duration
	Closing <-chan struct{}
	// Quiet is how long [Any] waits for further occurrences. If it is 0, Any returns immediately after the first one.
	Quiet time.Duration
	// NextPoll is the recommended delay before the caller's next poll. A check can override it.
	NextPoll time.Duration
	// Access decides whether the poll may be answered now.
	Access *access.Gate
	// Enter is called when the poll starts, and leave when it has finished. [Request.End] may be called in between.
	// Enter may be nil if the poll is never ended early.
	Enter func(ctx context.Context, q *Request) (leave func())

	cancel context.CancelCauseFunc // cancels the running poll
	leave  func()                  // the result of Enter, or nil
}

// End ends a running poll. The caller of the poll receives only the error, even if the poll has found occurrences.
func (q *Request) End(reason *events.Error) { q.cancel(&endedError{q, reason}) }

// An endedError is the cause of a canceled poll context.
type endedError struct {
	q      *Request
	reason *events.Error
}

func (e *endedError) Error() string { return e.reason.Error() }

// enter returns a context for the polls. Until leave is called, [Request.End] can cancel it.
func enter(ctx context.Context, polls ...*Request) (under context.Context, leave func()) {
	under, cancel := context.WithCancelCause(ctx)
	for _, q := range polls {
		if q.cancel = cancel; q.Enter != nil {
			q.leave = q.Enter(under, q)
		}
	}
	return under, func() {
		cancel(nil)
		for _, q := range polls {
			if q.leave != nil {
				q.leave()
			}
		}
	}
}

// causeOf returns the cause if a poll of the context was ended early, or nil.
func causeOf(ctx context.Context) *endedError {
	e, _ := context.Cause(ctx).(*endedError)
	return e
}

// An Answer is the result of a poll.
type Answer struct {
	Out       []topic.Outcome
	Cursor    []byte // JSON
	Truncated bool
	More      bool
	NextPoll  time.Duration // negative to omit it

	// Passed is the position of the last entry read from the type's log. It is valid only if FromLog is set.
	Passed  store.Position
	FromLog bool
}

// Encode returns the encoded result (POLL-2). It omits occurrences that are withheld from this subscription. The caller
// must log them for the author (OCC-4).
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

// pageOverhead is an upper bound on the size of a page in bytes, excluding its occurrences.
const pageOverhead = topic.MaxCursor + 256

// Read reads the available occurrences and waits for more if the request allows it (POLL-9).
func Read(ctx context.Context, q *Request) (*Answer, error) {
	ctx, leave := enter(ctx, q)
	defer leave()
	var wake topic.Wake // nil for a poll that does not wait
	if q.Wait > 0 {
		wake = topic.NewWake()
	}
	r := newReader(ctx, q)
	r.limit, r.bytes = q.Limit, q.MaxPage-pageOverhead
	err := r.read(wake)
	if err == nil {
		err = q.Access.Await(ctx)
	}
	if e := causeOf(ctx); e != nil {
		err = e.reason
	}
	q.Type.Polled(ctx, q, &r.a, err)
	if err != nil {
		return nil, err
	}
	return &r.a, nil
}

// A reader is the state of one poll.
type reader struct {
	*reading.Reader
	q        *Request
	a        Answer
	ctx      context.Context
	deadline time.Time
	limit    int
	bytes    int // of the occurrences together

	held bool // whether the poll is counted as waiting
	goes bool // whether to continue after finding an occurrence
	lost bool // entries of a check at or after its cursor were lost
	err  error
}

func newReader(ctx context.Context, q *Request) *reader {
	return &reader{Reader: reading.New(q.Type, q.Args), q: q, ctx: ctx, deadline: time.Now().Add(q.Wait)}
}

func (r *reader) read(wake topic.Wake) error {
	if err := r.open(wake); err != nil {
		return err
	}
	defer r.Close()
	if r.Replays() {
		defer r.setHeld(false)
		topic.Loop{Source: r, Wake: wake, Stop: r.q.Closing}.Run(r.ctx, r.turn)
	}
	r.a.Cursor, r.a.Passed = r.Cursor(), r.Position()
	r.end()
	return r.err
}

// end completes the answer with the delay before the next poll.
func (r *reader) end() { r.a.NextPoll = cmp.Or(r.NextPoll(), r.q.NextPoll) }

// setHeld updates the number of waiting polls.
func (r *reader) setHeld(now bool) {
	switch {
	case now && !r.held:
		r.q.Type.Hold(1)
	case !now && r.held:
		r.q.Type.Hold(-1)
	}
	r.held = now
}

// open determines the start.
func (r *reader) open(wake topic.Wake) (err error) {
	r.a.Truncated, err = r.OpenPoll(r.ctx, r.q.Sub, wake, feed.Start{Replay: r.q.Replay, Head: r.q.Head})
	r.a.FromLog = r.ReadsLog()
	r.lost = !r.a.FromLog && r.a.Truncated && r.q.Replay.Since == nil
	return err
}

// turn reads available occurrences and returns whether to wait for more.
func (r *reader) turn() (topic.Turn, time.Time) {
	if r.err = r.ctx.Err(); r.err == nil {
		r.err = r.Rebind()
	}
	if r.err != nil {
		return topic.Over, time.Time{}
	}
	a := &r.a
	got, err := r.Fill(r.ctx, a.Out, topic.Bound{Outcomes: r.limit, Bytes: r.bytes, Scan: r.q.Scan})
	a.Out, a.More = got.Out, got.More
	a.Truncated, r.lost = a.Truncated || got.Gap, r.lost || got.Gap && !a.FromLog
	switch {
	case err != nil:
		r.err = err
		return topic.Over, time.Time{}
	case len(a.Out) > 0 && !r.goes || a.More: // after a long scan, the caller polls again with its cursor
		return topic.Over, time.Time{}
	case r.lost, r.expired(time.Now()):
		return topic.Over, time.Time{}
	}
	until := r.deadline
	if wait := r.NextPoll(); wait > 0 {
		until = earlier(until, time.Now().Add(wait))
	}
	r.setHeld(true)
	return topic.Rest, until
}

// expired reports whether the poll must not wait any longer.
func (r *reader) expired(now time.Time) bool {
	select {
	case <-r.q.Closing:
		return true
	default:
		return !now.Before(r.deadline)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
