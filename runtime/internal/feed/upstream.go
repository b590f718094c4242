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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A checkpoint is a place upstream: the cursor that a check is asked with and how many of the
// items that it then gives are passed.
type checkpoint struct {
	upstream string
	offset   uint32 // with afterGap when the page that it counts in was truncated
}

// MaxUpstream bounds an upstream's own cursor, in bytes, which is a part of ours.
const MaxUpstream = 16 << 10

// afterGap marks an offset into a page that the upstream called truncated.
const afterGap = 1 << 31

// An upstream asks a check for one feed's principal and arguments, without any state of its own:
// polls use it directly, feeds in their loop.
type upstream struct {
	feeds     *Feeds
	check     *Check
	args      *topic.Arguments
	principal string // "" when the check is shared
	asker     string // whose turn a call takes
	hash      uint64 // of the feed, for cursors
}

func (f *Feeds) upstream(c *Check, a *topic.Arguments, principal string) *upstream {
	asker := principal
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
	return &upstream{feeds: f, check: c, args: a, principal: principal, asker: asker, hash: binary.BigEndian.Uint64(h.Sum(nil))}
}

// text is the cursor of a checkpoint.
func (u *upstream) text(c checkpoint) string {
	return wire.Cursor{Kind: wire.CheckCursor, Name: u.args.Of.NameHash, Feed: u.hash, Upstream: c.upstream, Offset: c.offset}.String()
}

// parse reads a cursor of this feed, of a check or of both sources; false for any other (CUR-7).
func (u *upstream) parse(text string) (wire.Cursor, bool) {
	c, err := topic.ParseCursor(text)
	kind := wire.CheckCursor
	if u.check.Emits {
		kind = wire.BothCursor
	}
	ok := err == nil && c.Kind == kind && c.Name == u.args.Of.NameHash && c.Feed == u.hash && c.Upstream != ""
	return c, ok
}

// wish splits a request's cursor: an upstream place, nil for now; stale when the cursor is none of
// this feed's, or a time is wished: an upstream is asked by its cursors alone.
func (u *upstream) wish(w topic.Replay) (_ topic.Replay, place *checkpoint, stale bool) {
	if w.Cursor == nil {
		return w, nil, w.Since != nil
	}
	c, ok := u.parse(*w.Cursor)
	if !ok {
		w.Cursor = nil
		return w, nil, true
	}
	return w, &checkpoint{c.Upstream, c.Offset}, false
}

// parseOwn reads a cursor that text made.
func (u *upstream) parseOwn(text string) (checkpoint, bool) {
	c, err := wire.ParseCursor(text)
	return checkpoint{c.Upstream, c.Offset}, err == nil
}

// A step is what one question to the upstream gave.
type step struct {
	entries   []store.Entry // each with its Cursor
	next      checkpoint
	more      bool
	truncated bool
	nextPoll  time.Duration
}

var errNoCursor = errors.New("the check returned a page without a cursor")

// ask runs the check once, when it is its turn. Its errors are presentable (PUSH-5).
func (u *upstream) ask(ctx context.Context, cursor string) (p Page, err error) {
	done, err := u.feeds.turns.take(ctx, u.asker)
	if err != nil {
		return p, fault.AsUpstream(ctx, err)
	}
	defer done()
	p, err = u.check.Ask(hook.WithPrincipal(ctx, u.principal), u.args.Typed(), cursor)
	switch {
	case err != nil:
	case p.Cursor == "":
		err = errNoCursor
	case len(p.Cursor) > MaxUpstream:
		err = fmt.Errorf("the check returned a cursor of %d bytes, at most %d", len(p.Cursor), MaxUpstream)
	}
	return p, fault.AsUpstream(ctx, err)
}

// now asks where the upstream's head is (CUR-2).
func (u *upstream) now(ctx context.Context) (checkpoint, time.Duration, error) {
	p, err := u.ask(ctx, "")
	return checkpoint{upstream: p.Cursor}, p.NextPoll, err
}

// step asks for what follows c. Items that cannot be occurrences are logged and passed over.
func (u *upstream) step(ctx context.Context, c checkpoint) (step, error) {
	p, err := u.ask(ctx, c.upstream)
	if err != nil {
		return step{}, err
	}
	s := step{next: checkpoint{upstream: p.Cursor}, more: p.HasMore, truncated: p.Truncated, nextPoll: p.NextPoll}
	// A page after a gap is another page than the one before it: an offset into the one says nothing
	// about the other, and a page after a gap that is asked for again goes on where it was left.
	skip, kind := int(c.offset&^afterGap), c.offset&afterGap
	var mark uint32
	if p.Truncated {
		mark = afterGap
	}
	switch {
	case kind != mark:
		skip = 0
	case p.Truncated:
		s.truncated = false // told already
	}
	if p.Cursor == c.upstream {
		// The upstream did not move: the items count from the same cursor the next time.
		s.next.offset = max(uint32(len(p.Items)), uint32(skip)) | mark
		s.more = false
	}
	checked := u.args.Of.Now()
	for i := skip; i < len(p.Items); i++ {
		e, err := u.entry(&p.Items[i], c.upstream, i, checked)
		if err != nil {
			u.feeds.host.Log().Internal(ctx, "checking "+u.args.Of.Name, err)
			continue
		}
		if u.check.Emits && !u.feeds.fromCheck(u.hash, e.EventID) {
			continue
		}
		after := checkpoint{c.upstream, uint32(i+1) | mark}
		if i == len(p.Items)-1 {
			after = s.next
		}
		e.Cursor = u.text(after)
		s.entries = append(s.entries, e)
	}
	return s, nil
}

// entry makes a log entry of an item (OCC-2).
func (u *upstream) entry(it *Item, cursor string, i int, checked time.Time) (store.Entry, error) {
	e := store.Entry{EventID: it.ID, Data: it.Data}
	if it.Err != nil {
		return e, fmt.Errorf("item %d: %w: %w", i, events.ErrInvalidPayload, it.Err)
	}
	if err := u.args.Of.Encodable(it.Data); err != nil {
		return e, fmt.Errorf("item %d: %w", i, err)
	}
	if e.EventID == "" {
		e.EventID = derivedID(u.args.Of.Name, cursor, i, it.Data)
	} else if err := wire.CheckEventID(e.EventID); err != nil {
		return e, fmt.Errorf("item %d: %w", i, err)
	}
	if it.Text != "" {
		var err error
		if e.Timestamp, err = events.ParseTime(it.Text); err != nil {
			return e, fmt.Errorf("item %d: %w", i, err)
		}
		return e, nil
	}
	at := it.Time
	if at.IsZero() {
		at = checked
	}
	e.Timestamp = events.NewTime(at)
	_, err := e.Timestamp.MarshalText()
	return e, err
}

// derivedID is the same whenever the same cursor gives the same item (OCC-2).
func derivedID(name, cursor string, i int, data []byte) string {
	h := sha256.New()
	var n [8]byte
	for _, part := range []string{name, cursor, string(data)} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(n[:], uint64(i))
	h.Write(n[:])
	return "chk_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// since drops the entries before the first one that is not older than limit.
func since(entries []store.Entry, limit time.Time) (rest, dropped []store.Entry) {
	for i := range entries {
		if !entries[i].Timestamp.Before(limit) {
			return entries[i:], entries[:i]
		}
	}
	return nil, entries
}

// maxSkips bounds the pages that one request may pass over because they are too old.
const maxSkips = 64

// replayFrom takes the first step from c and passes over what is too old to be replayed (CUR-5,
// CUR-6). It returns where that leads.
func (u *upstream) replayFrom(ctx context.Context, c checkpoint, maxAge *time.Duration) (s step, from checkpoint, fromText string, err error) {
	limit, limited := topic.ReplayLimit(u.args.Of, maxAge)
	from, fromText = c, u.text(c)
	truncated := false
	for i := 0; ; i++ {
		if s, err = u.step(ctx, from); err != nil {
			return step{}, from, fromText, err
		}
		truncated = truncated || s.truncated
		if limited {
			rest, dropped := since(s.entries, limit)
			s.entries = rest
			if len(dropped) > 0 {
				truncated = true
				fromText = dropped[len(dropped)-1].Cursor
			}
			if len(rest) == 0 && s.more && i < maxSkips {
				from, fromText = s.next, u.text(s.next)
				continue
			}
		}
		s.truncated = truncated
		return s, from, fromText, nil
	}
}
