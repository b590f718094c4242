// Package feed finds occurrences by calling a check. Streams and webhook subscriptions with the same event, arguments
// and principal share a feed. Each of them reads a [Source], which has its own position. The feed calls the check in the
// background and shares the result among the sources at the same position. A poll calls the check directly. If the type
// also emits, both sources are combined (bothsources.go).
//
// Each event type has one [Feeds]. The file upstream.go calls the check, and walk.go reads the results.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fairsem"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Check is the check of one registration of an event type.
type Check struct {
	// Ask calls the author's check with the decoded arguments. It returns panics as errors.
	Ask func(ctx context.Context, arguments any, cursor string) (Page, error)
	// Emits reports whether the type also has an emitter.
	Emits bool
	// Shared reports whether the result of the check is independent of the principal.
	Shared bool
	// Interval is the default interval of the calls. The upstream service can set a different interval.
	Interval time.Duration
}

// A Page is an events.Page with encoded payloads.
type Page struct {
	Items     []Item
	Cursor    string
	HasMore   bool
	Truncated bool
	NextPoll  time.Duration
}

// An Item is one occurrence of a [Page].
type Item struct {
	ID     string
	Time   time.Time
	Text   string // the original text of the time, if it must be preserved
	Cursor string // after the item; "" if the upstream has no cursor there
	Data   json.RawMessage
	Err    error // the payload could not be encoded
}

// A Host is the event type to which the feeds belong.
type Host interface {
	// Topic returns the topic of emitted occurrences, or nil if the type does not have an emitter.
	Topic() *topic.Topic
	// Begin registers a call that the server must wait for during shutdown. It returns false if the server has shut
	// down.
	Begin() (done func(), ok bool)
	// Log returns the log for failures that are not reported to callers.
	Log() *fault.Log
}

// Feeds holds the feeds of one event type.
type Feeds struct {
	host    Host
	origins originTracker
	calls   fairsem.Semaphore
	checks  int // [Bounds.Checks]

	mu    sync.Mutex
	check *Check // of the current definition
	byKey map[feedKey]*feed
	used  map[string]map[string]int // number of readers by principal and arguments
}

// Init sets the host and the limits of the check. It must be called once, before any other method.
func (f *Feeds) Init(h Host, b Bounds) {
	f.host, f.checks = h, b.Checks
	f.calls.Init(b.Calls, b.CallsEach)
}

// Adopt sets the current check, which can be nil. The caller must call stop to end the calls of the previous check.
func (f *Feeds) Adopt(c *Check) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.byKey
	f.check, f.byKey = c, nil
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, feed := range old {
			feed.stop()
		}
	}
}

// Emitted records the eventId of an occurrence before it is appended and reports whether the ID is new. If a check also
// finds the occurrence, it is delivered only once, from the source that reported it first (SRV-1).
func (f *Feeds) Emitted(id string) (first bool) { return f.origins.recordEmitted(id) }

// NotEmitted reverts [Feeds.Emitted] for a new ID if the append fails.
func (f *Feeds) NotEmitted(id string) { f.origins.forgetEmitted(id) }

// deliversFromCheck reports whether the feed delivers the occurrence with the given eventId from the check. If other
// processes also emit, both sources deliver it, and clients deduplicate it by eventId (REP-14).
func (f *Feeds) deliversFromCheck(feed uint64, id string) bool {
	return f.host.Topic().Shared() || f.origins.deliversFromCheck(feed, id)
}

func (f *Feeds) deliversFromEmit(feed uint64, id string) bool {
	return f.host.Topic().Shared() || f.origins.deliversFromEmit(feed, id)
}

// Len returns the number of feeds in use.
func (f *Feeds) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byKey)
}

// A Seat identifies the subscription that a source serves.
type Seat struct {
	Feeds     *Feeds
	ID        string
	Principal string
	Bell      topic.Bell
}

// A Start describes where a source begins to read.
type Start struct {
	topic.Replay
	// Head is the head of the type's log when the request arrived.
	Head store.Position
	// Later reports whether the subscription has been accepted before. If so, the limits do not apply, and Open does
	// not call the check at the cursor: the source reports gaps.
	Later bool
}

// Open opens a subscription's source. The result truncated reports whether the source was unable to start at the
// requested position.
func Open(ctx context.Context, at Seat, c *Check, a *topic.Arguments, start Start) (_ *Source, truncated bool, err error) {
	r, w, place, truncated, err := openReader(ctx, at, c, a, start)
	if err != nil {
		return nil, false, err
	}
	src := &Source{reader: r}
	src.joinFeed()
	lost, err := src.start(ctx, place, w, start.Later)
	if err != nil {
		src.Close()
		return nil, false, err
	}
	return src, truncated || lost, nil
}

// Owns reports whether the cursor belongs to the feed of the given arguments and principal (CUR-7).
func (f *Feeds) Owns(c *Check, a *topic.Arguments, principal, cursor string) bool {
	_, ok := f.upstream(c, a, principal).parseCursor(cursor)
	return ok
}

// AskTime is the maximum time that events/subscribe waits for a check.
const AskTime = 5 * time.Second

// Fix returns the cursor at which a new subscription to a check starts (SUB-1). The result truncated reports whether
// the subscription is unable to start at the requested position (CUR-7). If the check times out, Fix returns an error
// only for a request without a cursor.
func (f *Feeds) Fix(ctx context.Context, c *Check, a *topic.Arguments, principal string, head store.Position, w topic.Replay) (cursor string, truncated bool, err error) {
	release, err := f.addReader(principal, a, false)
	if err != nil {
		return "", false, err
	}
	defer release()
	u := f.upstream(c, a, principal)
	feed := u.acquireFeed()
	defer feed.release()
	asked, place, stale := u.resolveStart(w)
	limited, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	text := ""
	switch {
	case place == nil:
		if _, text, err = feed.current(limited, principal); err != nil {
			if ctx.Err() == nil && limited.Err() != nil {
				err = fmt.Errorf("%w: the check did not return within %s", events.Upstream(""), AskTime)
			}
			return "", false, err
		}
	default:
		s, from, start, err := u.replayFrom(limited, *place, asked.MaxAge, feed.awaitFor(principal))
		if err != nil && ctx.Err() != nil {
			return "", false, ctx.Err()
		}
		switch text = start; {
		case err != nil:
			text = u.cursorOf(*place) // the source repeats the call
		case s.truncated && len(s.entries) == 0:
			text = s.cursor // the requested position no longer exists
		case s.truncated && start == u.cursorOf(from):
			text = u.cursorOf(checkpoint{from.upstream, from.offset | afterGapFlag}) // the response reports the gap
		}
		truncated = s.truncated
	}
	if !c.Emits {
		return text, truncated || stale, nil
	}
	t := f.host.Topic()
	from, err := resolveCombined(ctx, t, a.Of, head, asked)
	if err != nil {
		return "", false, err
	}
	both, err := combineCursors(from.Place(t, a.Of), text)
	return both, truncated || stale || from.Truncated, err
}

// combineCursors returns a cursor that combines a position in the type's log with a check's cursor.
func combineCursors(log wire.Cursor, check string) (string, error) {
	c, err := wire.ParseCursor(check)
	if err != nil {
		return "", err // unreachable: this package made the cursor
	}
	c.Kind, c.Epoch, c.Position, c.Proof = wire.BothCursor, log.Epoch, log.Position, log.Proof
	return c.String(), nil
}
