package feed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fairsem"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A checkpoint is a position in the upstream. It consists of the cursor to pass to the check and the number of items in
// the result that have been processed.
type checkpoint struct {
	upstream string
	offset   uint32 // with afterGapFlag if its page was truncated
}

// MaxUpstream is the maximum size of an upstream's cursor, in bytes. Our cursors contain it.
const MaxUpstream = 16 << 10

// afterGapFlag is set in an offset into a page that the upstream reported as truncated.
const afterGapFlag = 1 << 31

// An upstream calls a check with the principal and arguments of one feed. It is stateless. Polls use it directly, and
// sources share its results in a feed.
type upstream struct {
	feeds     *Feeds
	check     *Check
	args      *topic.Arguments
	principal string // "" when the check is shared
	hash      uint64 // of the feed, for cursors
}

func (f *Feeds) upstream(c *Check, a *topic.Arguments, principal string) *upstream {
	if c.Shared {
		principal = ""
	}
	h := sha256.New()
	for _, part := range []string{a.Of.Name, string(a.Canonical()), principal} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return &upstream{feeds: f, check: c, args: a, principal: principal, hash: binary.BigEndian.Uint64(h.Sum(nil))}
}

// cursorOf returns the text of the cursor for a checkpoint.
func (u *upstream) cursorOf(c checkpoint) string {
	return wire.Cursor{Kind: wire.CheckCursor, Name: u.args.Of.NameHash, Feed: u.hash, Upstream: c.upstream, Offset: c.offset}.String()
}

// parseCursor parses a cursor of this feed. The kind of the cursor must match the sources of the event type. For all
// other cursors, parseCursor returns false (CUR-7).
func (u *upstream) parseCursor(text string) (wire.Cursor, bool) {
	c, err := topic.ParseCursor(text)
	kind := wire.CheckCursor
	if u.check.Emits {
		kind = wire.BothCursor
	}
	ok := err == nil && c.Kind == kind && c.Name == u.args.Of.NameHash && c.Feed == u.hash && c.Upstream != ""
	return c, ok
}

// resolveStart returns the requested position in the upstream, or nil for the head. The result stale is true if the
// cursor does not belong to this feed or if the request has a start time, which upstreams do not support.
func (u *upstream) resolveStart(w topic.Replay) (_ topic.Replay, place *checkpoint, stale bool) {
	if w.Cursor == nil {
		return w, nil, w.Since != nil
	}
	c, ok := u.parseCursor(*w.Cursor)
	if !ok {
		w.Cursor = nil
		return w, nil, true
	}
	return w, &checkpoint{c.Upstream, c.Offset}, false
}

// parseCheckpoint parses a cursor that was returned by cursorOf.
func (u *upstream) parseCheckpoint(text string) (checkpoint, bool) {
	c, err := wire.ParseCursor(text)
	return checkpoint{c.Upstream, c.Offset}, err == nil
}

// A step is the result of one call to the check.
type step struct {
	entries   []stepEntry // each with its Cursor
	next      checkpoint
	cursor    string // of next
	more      bool
	truncated bool
	nextPoll  time.Duration
}

// A stepEntry is an entry of a step. The sources of a feed share its record, which is nil for a poll.
type stepEntry struct {
	store.Entry
	rec *topic.Record
}

var errNoCursor = errors.New("the check returned a page without a cursor")

// callCheck waits for a slot, and then calls the check once. Its errors can be shown to callers (PUSH-5).
func (u *upstream) callCheck(ctx context.Context, cursor string, slot *fairsem.Call) (p Page, err error) {
	release, err := slot.Wait(ctx)
	if err != nil {
		return p, fault.AsUpstream(ctx, err)
	}
	defer release()
	p, err = u.check.Ask(hook.WithPrincipal(ctx, u.principal), u.args.Typed(), cursor)
	switch {
	case err != nil:
	case p.Cursor == "":
		err = errNoCursor
	case len(p.Cursor) > MaxUpstream:
		err = fmt.Errorf("the check returned a cursor of %d bytes, at most %d", len(p.Cursor), MaxUpstream)
	case cursor != "":
		err = p.checkItemCursors(cursor)
	}
	return p, fault.AsUpstream(ctx, err)
}

// checkItemCursors validates the item cursors of a page that was requested with the cursor asked. If two positions had
// the same cursor, a subscriber that resumes from it would miss the items between them or receive them twice.
func (p *Page) checkItemCursors(asked string) error {
	seen := map[string]bool{asked: true}
	for i := range p.Items {
		switch c := p.Items[i].Cursor; {
		case c == "":
		case len(c) > MaxUpstream:
			return fmt.Errorf("item %d has a cursor of %d bytes, at most %d", i, len(c), MaxUpstream)
		case seen[c]:
			return fmt.Errorf("item %d has the cursor %.80q of an earlier position", i, c)
		default:
			seen[c] = true
		}
	}
	if len(seen) > 1 && p.Cursor == asked {
		return fmt.Errorf("the page has the cursor %.80q of the request, but its items have others", asked)
	}
	return nil
}

// fetchStep fetches the items after c. It logs and skips items that are not valid occurrences. With the zero checkpoint
// it fetches the upstream's head, without items (CUR-2).
func (u *upstream) fetchStep(ctx context.Context, c checkpoint, slot *fairsem.Call) (step, error) {
	p, err := u.callCheck(ctx, c.upstream, slot)
	if err != nil {
		return step{}, err
	}
	if c == (checkpoint{}) {
		next := checkpoint{upstream: p.Cursor}
		return step{next: next, cursor: u.cursorOf(next), nextPoll: p.NextPoll}, nil
	}
	s := step{next: checkpoint{upstream: p.Cursor}, more: p.HasMore, truncated: p.Truncated, nextPoll: p.NextPoll}
	// A truncated page differs from the same page without a gap, so the offset into one page does not apply to the
	// other page. If a truncated page is fetched again, reading continues at the offset in that page.
	skip, kind := int(c.offset&^afterGapFlag), c.offset&afterGapFlag
	var mark uint32
	if p.Truncated {
		mark = afterGapFlag
	}
	switch {
	case kind != mark:
		skip = 0
	case p.Truncated:
		s.truncated = false // already reported
	}
	if p.Cursor == c.upstream {
		// The upstream's cursor did not change: the next call returns the items from the same cursor.
		s.next.offset = max(uint32(len(p.Items)), uint32(skip)) | mark
		s.more = false
	}
	s.cursor = u.cursorOf(s.next)
	checked := u.args.Of.Now()
	at := checkpoint{upstream: c.upstream} // before the item; its offset excludes the mark
	for i := range p.Items {
		it, before := &p.Items[i], at
		if at.offset++; it.Cursor != "" {
			at, mark = checkpoint{upstream: it.Cursor}, 0
		}
		if i < skip {
			continue
		}
		e, err := u.entryOf(it, before, checked)
		if err != nil {
			err = fmt.Errorf("item %d: %w", i, err)
			u.feeds.host.Log().Internal(ctx, "checking "+u.args.Of.Name, err)
			continue
		}
		if u.check.Emits && !u.feeds.deliversFromCheck(u.hash, e.EventID) {
			continue
		}
		e.Cursor = s.cursor
		if i < len(p.Items)-1 {
			e.Cursor = u.cursorOf(checkpoint{at.upstream, at.offset | mark})
		}
		s.entries = append(s.entries, stepEntry{Entry: e})
	}
	return s, nil
}

// A fetch fetches the items after a checkpoint.
type fetch func(context.Context, checkpoint) (step, error)

// fetchFor returns a fetch that calls the check for a principal.
func (u *upstream) fetchFor(principal string) fetch {
	return func(ctx context.Context, c checkpoint) (step, error) {
		slot := u.feeds.calls.NewCall()
		slot.Join(principal)
		return u.fetchStep(ctx, c, slot)
	}
}

// entryOf returns the log entry for an item (OCC-2).
func (u *upstream) entryOf(it *Item, before checkpoint, checked time.Time) (store.Entry, error) {
	e := store.Entry{EventID: it.ID, Data: it.Data}
	if it.Err != nil {
		return e, fmt.Errorf("%w: %w", events.ErrInvalidPayload, it.Err)
	}
	if err := u.args.Of.Encodable(it.Data, nil); err != nil {
		return e, err
	}
	switch {
	case e.EventID != "":
		if err := wire.CheckEventID(e.EventID); err != nil {
			return e, err
		}
	case u.args.Of.PerPrincipal != nil:
		return e, errNoID
	default:
		e.EventID = derivedID(u.args.Of.Name, before, it.Data)
	}
	if it.Text != "" {
		var err error
		e.Timestamp, err = events.ParseTime(it.Text)
		return e, err
	}
	at := it.Time
	if at.IsZero() {
		at = checked
	}
	e.Timestamp = events.NewTime(at)
	_, err := e.Timestamp.MarshalText()
	return e, err
}

// errNoID is the error for an item without an ID if the type has private members. A derived ID is a hash, which a
// caller could use to verify guesses about private members (OCC-6).
var errNoID = errors.New("it has no ID, which an event type with PerPrincipal requires: set Item.ID")

// derivedID returns an ID for an item. The same item after the same cursor always has the same ID (OCC-2).
func derivedID(name string, before checkpoint, data []byte) string {
	h := sha256.New()
	var n [8]byte
	for _, part := range []string{name, before.upstream, string(data)} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(n[:], uint64(before.offset))
	h.Write(n[:])
	return "chk_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// dropOld drops the entries that precede the first entry that is not older than limit.
func dropOld(entries []stepEntry, limit time.Time) (rest, dropped []stepEntry) {
	for i := range entries {
		if !entries[i].Timestamp.Before(limit) {
			return entries[i:], entries[:i]
		}
	}
	return nil, entries
}

// maxSkips is the maximum number of outdated pages that one request skips.
const maxSkips = 64

// replayFrom fetches the first step from c, skipping entries that are too old to replay (CUR-5,
// CUR-6). It returns the step and the checkpoint before it.
func (u *upstream) replayFrom(ctx context.Context, c checkpoint, maxAge *time.Duration, get fetch) (s step, from checkpoint, fromText string, err error) {
	limit, limited := topic.ReplayLimit(u.args.Of, maxAge)
	from, fromText = c, u.cursorOf(c)
	truncated := false
	for i := 0; ; i++ {
		if s, err = get(ctx, from); err != nil {
			return step{}, from, fromText, err
		}
		truncated = truncated || s.truncated
		if limited {
			rest, dropped := dropOld(s.entries, limit)
			s.entries = rest
			if len(dropped) > 0 {
				truncated = true
				fromText = dropped[len(dropped)-1].Cursor
			}
			if len(rest) == 0 && s.more && i < maxSkips {
				from, fromText = s.next, s.cursor
				continue
			}
		}
		s.truncated = truncated
		return s, from, fromText, nil
	}
}
