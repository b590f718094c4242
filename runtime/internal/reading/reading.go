// Package reading reads an event type for one consumer: its log, or the results of its check. The consumer does not need
// to know which of them it reads. If the type is registered again, a [Reader] continues with the new definition.
//
// The entry points are [Reader.Open] for streams and [Reader.OpenPoll] for polls. Webhook subscriptions read by position
// and from several goroutines, so they use a [Binding] only.
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

// A Binding holds the arguments of a subscription under the current definition of its event type.
type Binding struct {
	et   eventtype.Type
	mu   sync.Mutex
	args eventtype.Arguments
}

// Bind returns a binding of the arguments.
func Bind(et eventtype.Type, a eventtype.Arguments) Binding { return Binding{et: et, args: a} }

// Arguments returns the result of the last successful call to Current.
func (b *Binding) Arguments() eventtype.Arguments {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.args
}

// Current returns the arguments under the current definition. It returns an error if the type has been removed or does
// not accept the arguments any longer (EVOL-2, EVOL-3).
func (b *Binding) Current() (eventtype.Arguments, error) {
	d, a := b.et.Current(), b.Arguments()
	if d == nil {
		return a, fault.NotFound("event")
	}
	if d == a.Def {
		return a, nil
	}
	next, err := eventtype.Reparse(d, a.JSON)
	if err != nil {
		return a, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.args = next
	return next, nil
}

// A Reader reads an event type for one stream or poll. Its owner calls Rebind instead of Current. Only Arguments and
// Passed can be called concurrently with the other methods.
type Reader struct {
	Binding
	topic.Source              // nil until Open returns
	log          topic.Reader // the source of a type without a check
	check        CheckSource  // the source of a type with a check
	poll         *feed.Poll   // check, if a poll reads it
}

// A CheckSource reads the results of a check. It is a [feed.Source] or a [feed.Poll] outside tests.
type CheckSource interface {
	topic.Source
	Rebind(c *feed.Check, a *topic.Arguments)
}

// New returns a reader of the type with the given arguments.
func New(et eventtype.Type, a eventtype.Arguments) *Reader { return &Reader{Binding: Bind(et, a)} }

// Open determines the start of the reader for a subscription. The bell is rung when a parked reader must continue. The
// result truncated reports whether the reader was unable to start at the requested position.
func (r *Reader) Open(ctx context.Context, sub eventtype.Subscription, bell topic.Bell, start feed.Start) (truncated bool, err error) {
	if check := r.args.Def.Check(); check != nil {
		src, truncated, err := feed.Open(ctx, r.seat(sub, bell), check, r.args.Arguments, start)
		if err != nil {
			return false, err
		}
		r.check, r.Source = src, src
		return truncated, nil
	}
	return r.openLog(ctx, sub, bell, start)
}

// OpenPoll is like Open for a poll, which calls the check itself. The poll must use Fill instead of Next.
func (r *Reader) OpenPoll(ctx context.Context, sub eventtype.Subscription, bell topic.Bell, start feed.Start) (truncated bool, err error) {
	check := r.args.Def.Check()
	if check == nil {
		return r.openLog(ctx, sub, bell, start)
	}
	if r.poll, truncated, err = feed.OpenPoll(ctx, r.seat(sub, bell), check, r.args.Arguments, start); err != nil {
		return false, err
	}
	r.check, r.Source = r.poll, r.poll
	return truncated, nil
}

func (r *Reader) seat(sub eventtype.Subscription, bell topic.Bell) feed.Seat {
	return feed.Seat{Feeds: r.et.Feeds(), ID: sub.ID, Principal: sub.Principal, Bell: bell}
}

func (r *Reader) openLog(ctx context.Context, sub eventtype.Subscription, bell topic.Bell, start feed.Start) (truncated bool, err error) {
	from, err := r.et.Topic().Start(ctx, r.args.Of, start.Head, start.Replay)
	if err != nil {
		return false, err
	}
	r.log = r.et.Topic().ReaderFrom(r.args.Arguments, sub.ID, bell, from)
	r.Source = &r.log
	return from.Truncated, nil
}

// Rebind switches to the current definition of the type. It returns the errors of [Binding.Current].
func (r *Reader) Rebind() error {
	before := r.args
	switch a, err := r.Current(); {
	case err != nil:
		return err
	case a == before:
	case r.check != nil:
		r.check.Rebind(a.Def.Check(), a.Arguments)
	default:
		r.log.Rebind(a.Arguments)
	}
	return nil
}

// ReadsLog reports whether the reader reads the type's log.
func (r *Reader) ReadsLog() bool { return r.Source == &r.log }

// Position returns the last position in the log that the reader has passed. For a check it returns 0.
func (r *Reader) Position() store.Position { return r.log.Position() }

// Passed returns the position that Unpark would currently return, or 0 if the reader is not parked.
// The reader must read a log.
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

// Rings reports whether the bell announces new occurrences to a poll. A poll that only reads a check must call the check
// instead.
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
