// Package feed finds occurrences by asking a check: streams and webhook subscriptions with the same
// event, arguments and principal share a feed, whose loop asks and whose log they read; a poll asks
// directly. For a type that also emits, both places are read as one (both.go).
//
// Start at [Feeds], of which each event type has one. upstream.go asks the upstream once, and walk.go reads what it
// answered.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Check is the check of one registration of an event type.
type Check struct {
	// Ask asks the author's check with arguments decoded; panics are errors.
	Ask func(ctx context.Context, arguments any, cursor string) (Page, error)
	// Emits tells that the type has an emitter too.
	Emits bool
	// Shared tells that the answer does not depend on the principal.
	Shared bool
	// Interval is that of the loop, where the upstream names none.
	Interval time.Duration
}

// A Page is an events.Page with its payloads encoded.
type Page struct {
	Items     []Item
	Cursor    string
	HasMore   bool
	Truncated bool
	NextPoll  time.Duration
}

// An Item is one occurrence of a [Page].
type Item struct {
	ID   string
	Time time.Time
	Text string // of the time, when it is to stay as it is
	Data json.RawMessage
	Err  error // the payload could not be encoded
}

// A Host is the event type whose feeds they are.
type Host interface {
	// Topic is the log of what is emitted; nil without an emitter.
	Topic() *topic.Topic
	// Begin counts a loop that the server waits for when it shuts down; false when it has.
	Begin() (done func(), ok bool)
	// Log is where failures go that no caller sees.
	Log() *fault.Log
}

// Feeds are those of one event type.
type Feeds struct {
	host    Host
	origins origins
	turns   turns
	checks  int // [Bounds.Checks]

	mu    sync.Mutex
	check *Check // of the present definition
	byKey map[feedKey]*feed
	used  map[string]map[string]int // readers by principal and arguments
}

// Init says whose feeds they are and what bounds their check; it is called once, before anything else.
func (f *Feeds) Init(h Host, b Bounds) {
	f.host, f.checks = h, b.Checks
	f.turns.calls, f.turns.each = b.Calls, b.CallsEach
}

// Adopt makes c the present check; nil for none. stop ends the loops of the one before it.
func (f *Feeds) Adopt(c *Check) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.byKey
	f.check, f.byKey = c, nil
	return func() {
		for _, feed := range old {
			feed.stop()
		}
	}
}

// Emitted notes an eventId before it is appended and reports whether it was not noted yet. An
// occurrence that a check finds too is delivered once, the way by which it came first (SRV-1).
func (f *Feeds) Emitted(id string) (first bool) { return f.origins.emitted(id) }

// NotEmitted takes back [Feeds.Emitted] when the append failed and nobody had emitted the id before.
func (f *Feeds) NotEmitted(id string) { f.origins.forget(id) }

// fromCheck and fromEmit decide by which way an eventId is delivered. What one process remembers cannot
// decide it for others: where they emit too, it goes both ways, and clients know it by its eventId (REP-14).
func (f *Feeds) fromCheck(feed uint64, id string) bool {
	return f.host.Topic().Shared() || f.origins.fromCheck(feed, id)
}

func (f *Feeds) fromEmit(feed uint64, id string) bool {
	return f.host.Topic().Shared() || f.origins.fromEmit(feed, id)
}

// Len is the number of feeds that somebody holds.
func (f *Feeds) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byKey)
}

// A Seat is what a source knows of the subscription that it reads for.
type Seat struct {
	Feeds     *Feeds
	ID        string
	Principal string
	Bell      topic.Bell
}

// A Source is a subscription's reader of a check.
type Source interface {
	topic.Source
	// Rebind goes on with the check and arguments of another definition, from the same cursor.
	Rebind(ctx context.Context, c *Check, a *topic.Arguments) error
	// Asks reports whether the source reads no feed's log yet: the next pull may take as long as a
	// check does.
	Asks() bool
}

// A Start is where a source begins.
type Start struct {
	topic.Replay
	// Head is that of the type's log when the request arrived.
	Head store.Position
	// Later is for a subscription that was accepted before: its feed's loop asks the upstream and reports a gap, and no
	// bound refuses it.
	Later bool
}

// Open finds a subscription's start in the feed of its arguments. truncated tells that it is not the
// one that was asked for.
func Open(ctx context.Context, at Seat, c *Check, a *topic.Arguments, start Start) (_ Source, truncated bool, err error) {
	release, err := at.Feeds.use(at.Principal, a, start.Later)
	if err != nil {
		return nil, false, err
	}
	u := at.Feeds.upstream(c, a, at.Principal)
	w, place, stale := u.wish(start.Replay)
	src := newSource(at, u, release)
	if truncated, err = src.start(ctx, place, w, start.Later); err != nil {
		src.free()
		return nil, false, err
	}
	if !c.Emits {
		return src, truncated || stale, nil
	}
	both, lost, err := openBoth(ctx, src, start.Head, w)
	if err != nil {
		src.Close()
		return nil, false, err
	}
	return both, truncated || stale || lost, nil
}

// Owns reports whether the cursor is one of the feed of these arguments and principal (CUR-7).
func (f *Feeds) Owns(c *Check, a *topic.Arguments, principal, cursor string) bool {
	_, ok := f.upstream(c, a, principal).parse(cursor)
	return ok
}

// AskTime bounds how long events/subscribe waits for a check.
const AskTime = 5 * time.Second

// Fix is the cursor at which a subscription to a check begins that asked for one or for now, as of
// this moment (SUB-1); truncated when it is not the one that it asked for (CUR-7). A check that does
// not answer in time is an error only where there is no cursor to begin at.
func (f *Feeds) Fix(ctx context.Context, c *Check, a *topic.Arguments, principal string, head store.Position, w topic.Replay) (cursor string, truncated bool, err error) {
	release, err := f.use(principal, a, false)
	if err != nil {
		return "", false, err
	}
	defer release()
	u := f.upstream(c, a, principal)
	asked, place, stale := u.wish(w)
	limited, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	text := ""
	switch {
	case place == nil:
		if text, err = u.present(limited); err != nil {
			if ctx.Err() == nil && limited.Err() != nil {
				err = fmt.Errorf("%w: the check has not answered within %s", events.Upstream(""), AskTime)
			}
			return "", false, err
		}
	default:
		s, from, start, err := u.replayFrom(limited, *place, asked.MaxAge)
		if err != nil && ctx.Err() != nil {
			return "", false, ctx.Err()
		}
		switch text = start; {
		case err != nil:
			text = u.text(*place) // the loop goes on trying
		case s.truncated && len(s.entries) == 0:
			text = u.text(s.next) // what was asked for does not exist any more
		case s.truncated && start == u.text(from):
			text = u.text(checkpoint{from.upstream, from.offset | afterGap}) // the response tells of it
		}
		truncated = s.truncated
	}
	if !c.Emits {
		return text, truncated || stale, nil
	}
	t := f.host.Topic()
	from, err := resolveBoth(ctx, t, a.Of, head, asked)
	if err != nil {
		return "", false, err
	}
	both, err := bothText(from.Place(t), text)
	return both, truncated || stale || from.Truncated, err
}

// present is the cursor of the upstream's head: that of a running loop, else the check is asked.
func (u *upstream) present(ctx context.Context) (string, error) {
	u.feeds.mu.Lock()
	f := u.feeds.byKey[feedKey{u.args.Key, u.principal}]
	u.feeds.mu.Unlock()
	if f != nil {
		f.mu.Lock()
		live, head := f.live, f.head
		f.mu.Unlock()
		if live {
			return head, nil
		}
	}
	now, _, err := u.now(ctx)
	if err != nil {
		return "", err
	}
	return u.text(now), nil
}

// bothText joins a place in the type's log with a place upstream.
func bothText(log wire.Cursor, check string) (string, error) {
	c, err := wire.ParseCursor(check)
	if err != nil {
		return "", err // unreachable: check is always one of ours
	}
	c.Kind, c.Epoch, c.Position, c.Proof = wire.BothCursor, log.Epoch, log.Position, log.Proof
	return c.String(), nil
}
