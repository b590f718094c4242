// Package reading reads an event type for one consumer: its log, or the results of its check. The consumer does not need
// to know which of them it reads. If the type is registered again, a [Reader] continues with the new definition.
//
// The entry points are [Reader.Open] for streams and [Reader.OpenPoll] for polls.
package reading

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Reader reads an event type for one stream or poll. Only Arguments and Passed can be called concurrently with the other
// methods.
type Reader struct {
	topic.Source // nil until Open returns
	et           eventtype.Type
	seat         feed.Seat
	log          topic.Reader // the source of a type without a check
	check        checkSource  // the source of a type with a check
	poll         *feed.Poll   // check, if a poll reads it

	mu   sync.Mutex
	args eventtype.Arguments
}

// A checkSource is a [feed.Source] or a [feed.Poll].
type checkSource interface {
	topic.Source
	Rebind(c *feed.Check, a *topic.Arguments)
}

// New returns a reader of the type for a subscription. The bell is rung when a parked reader must continue.
func New(et eventtype.Type, sub eventtype.Subscription, a eventtype.Arguments, bell topic.Bell) *Reader {
	return &Reader{et: et, args: a, seat: feed.Seat{Feeds: et.Feeds(), ID: sub.ID, Principal: sub.Principal, Bell: bell}}
}

// Open determines the start of the reader. The result truncated reports whether the reader was unable to start at the
// requested position.
func (r *Reader) Open(ctx context.Context, start feed.Start) (truncated bool, err error) {
	if check := r.args.Def.Check(); check != nil {
		src, truncated, err := feed.Open(ctx, r.seat, check, r.args.Arguments, start)
		if err != nil {
			return false, err
		}
		r.check, r.Source = src, src
		return truncated, nil
	}
	return r.openLog(ctx, start)
}

// OpenPoll is like Open for a poll, which calls the check itself. The poll must use Fill instead of Next.
func (r *Reader) OpenPoll(ctx context.Context, start feed.Start) (truncated bool, err error) {
	check := r.args.Def.Check()
	if check == nil {
		return r.openLog(ctx, start)
	}
	if r.poll, truncated, err = feed.OpenPoll(ctx, r.seat, check, r.args.Arguments, start); err != nil {
		return false, err
	}
	r.check, r.Source = r.poll, r.poll
	return truncated, nil
}

func (r *Reader) openLog(ctx context.Context, start feed.Start) (truncated bool, err error) {
	from, err := r.et.Topic().Start(ctx, r.args.Of, start.Head, start.Replay)
	if err != nil {
		return false, err
	}
	r.log = r.et.Topic().ReaderFrom(r.args.Arguments, r.seat.ID, r.seat.Bell, from)
	r.Source = &r.log
	return from.Truncated, nil
}

// Rebind switches to the current definition of the type. It returns an error if the type has been removed or does not
// accept the arguments any longer (EVOL-2, EVOL-3).
func (r *Reader) Rebind() error {
	d := r.et.Current()
	if d == nil {
		return fault.NotFound("event")
	}
	if d == r.args.Def {
		return nil
	}
	next, err := eventtype.Reparse(d, r.args.JSON)
	if err != nil {
		return err
	}
	if r.check != nil {
		r.check.Rebind(d.Check(), next.Arguments)
	} else {
		r.log.Rebind(next.Arguments)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.args = next
	return nil
}

// Arguments returns the arguments, compiled for the definition that the reader uses.
func (r *Reader) Arguments() eventtype.Arguments {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.args
}

// ReadsLog reports whether the reader reads the type's log. If not, Position and Passed return 0.
func (r *Reader) ReadsLog() bool { return r.Source == &r.log }

// Position returns the last position in the log that the reader has passed.
func (r *Reader) Position() store.Position { return r.log.Position() }

// Passed returns the position that Unpark would currently return, or 0 if the reader is not parked.
func (r *Reader) Passed() store.Position { return r.log.Passed() }

// Fill reads occurrences for a poll, up to the bound. It continues after a gap and sets More only if a later entry might
// match.
func (r *Reader) Fill(ctx context.Context, into []topic.Outcome, b topic.Bound) (topic.Pulled, error) {
	if r.poll != nil {
		return r.poll.Next(ctx, into, b)
	}
	return r.log.Fill(ctx, into, b)
}

// After returns the cursor after the first n occurrences that the last call to Fill returned, as JSON, and their position
// in the log. The number n must be at least 1.
func (r *Reader) After(out []topic.Outcome, n int) (cursor []byte, passed store.Position) {
	if r.poll != nil {
		return r.poll.CursorAfter(out, n), 0
	}
	return out[n-1].Cursor(), out[n-1].Entry().Position
}

// Replays reports whether a poll starts at a position that can have occurrences after it. A poll of a check without a
// cursor does not.
func (r *Reader) Replays() bool { return r.poll == nil || r.poll.Replays() }

// Rings reports whether the bell announces new occurrences to a poll. A poll of a check alone must call it instead.
func (r *Reader) Rings() bool { return r.poll == nil || r.args.Def.Check().Emits }

// NextPoll returns the delay before a poll must call the check again, or 0 if the poll reads a log.
func (r *Reader) NextPoll() time.Duration {
	if r.poll == nil {
		return 0
	}
	return r.poll.NextPoll()
}

// Close releases all resources.
func (r *Reader) Close() {
	if r.Source != nil {
		r.Source.Close()
	}
}
