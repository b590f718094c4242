package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A checkpoint is a place upstream: the cursor that a check is asked with and how many of the
// items that it then gives are passed.
type checkpoint struct {
	upstream string
	offset   uint32 // with afterGap when the page that it counts in was truncated
}

// afterGap marks an offset into a page that the upstream called truncated.
const afterGap = 1 << 31

// An upstream asks a check for one feed's principal and arguments, without any state of its own:
// polls use it directly, feeds in their loop.
type upstream struct {
	et        *eventType
	args      *arguments
	principal string // "" when the check is shared
	hash      uint64 // of the feed, for cursors
}

func newUpstream(et *eventType, a *arguments, principal string) *upstream {
	if a.def.options.sharedCheck {
		principal = ""
	}
	h := sha256.New()
	for _, part := range []string{a.def.info.Name, string(a.canonical()), principal} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return &upstream{et: et, args: a, principal: principal, hash: binary.BigEndian.Uint64(h.Sum(nil))}
}

// text is the cursor of a checkpoint.
func (u *upstream) text(c checkpoint) string {
	return wire.Cursor{Kind: wire.CheckCursor, Name: u.args.def.nameHash, Feed: u.hash, Upstream: c.upstream, Offset: c.offset}.String()
}

// parse reads a cursor of this feed, of a check or of both sources; false for any other (CUR-7).
func (u *upstream) parse(text string) (wire.Cursor, bool) {
	c, err := parseCursor(text)
	kind := wire.CheckCursor
	if u.args.def.emits {
		kind = wire.BothCursor
	}
	ok := err == nil && c.Kind == kind && c.Name == u.args.def.nameHash && c.Feed == u.hash && c.Upstream != ""
	return c, ok
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

// ask runs the check once. Its errors are presentable (PUSH-5).
func (u *upstream) ask(ctx context.Context, cursor string) (f found, err error) {
	d := u.args.def
	err = d.guard("Check", func() error {
		var err error
		f, err = d.check(hook.WithPrincipal(ctx, u.principal), u.args.typed(), cursor)
		return err
	})
	switch {
	case err != nil:
	case f.cursor == "":
		err = errNoCursor
	case len(f.cursor) > maxUpstream:
		err = fmt.Errorf("the check returned a cursor of %d bytes, at most %d", len(f.cursor), maxUpstream)
	}
	return f, fault.AsUpstream(ctx, err)
}

// now asks where the upstream's head is (CUR-2).
func (u *upstream) now(ctx context.Context) (checkpoint, time.Duration, error) {
	f, err := u.ask(ctx, "")
	return checkpoint{upstream: f.cursor}, f.nextPoll, err
}

// step asks for what follows c. Items that cannot be occurrences are logged and passed over.
func (u *upstream) step(ctx context.Context, c checkpoint) (step, error) {
	f, err := u.ask(ctx, c.upstream)
	if err != nil {
		return step{}, err
	}
	s := step{next: checkpoint{upstream: f.cursor}, more: f.hasMore, truncated: f.truncated, nextPoll: f.nextPoll}
	// A page after a gap is another page than the one before it: an offset into the one says nothing
	// about the other, and a page after a gap that is asked for again goes on where it was left.
	skip, kind := int(c.offset&^afterGap), c.offset&afterGap
	var mark uint32
	if f.truncated {
		mark = afterGap
	}
	switch {
	case kind != mark:
		skip = 0
	case f.truncated:
		s.truncated = false // told already
	}
	if f.cursor == c.upstream {
		// The upstream did not move: the items count from the same cursor the next time.
		s.next.offset = max(uint32(len(f.items)), uint32(skip)) | mark
		s.more = false
	}
	checked := time.Now().UTC()
	for i := skip; i < len(f.items); i++ {
		e, err := u.entry(&f.items[i], c.upstream, i, checked)
		if err != nil {
			u.et.server.log.Internal(ctx, "checking "+u.args.def.info.Name, err)
			continue
		}
		if u.args.def.emits && !u.et.origins.fromCheck(u.hash, e.EventID) {
			continue
		}
		after := checkpoint{c.upstream, uint32(i+1) | mark}
		if i == len(f.items)-1 {
			after = s.next
		}
		e.Cursor = u.text(after)
		s.entries = append(s.entries, e)
	}
	return s, nil
}

// entry makes a log entry of an item (OCC-2).
func (u *upstream) entry(it *foundItem, cursor string, i int, checked time.Time) (store.Entry, error) {
	e := store.Entry{EventID: it.id, Data: it.data}
	if it.err != nil {
		return e, fmt.Errorf("item %d: %w: %w", i, events.ErrInvalidPayload, it.err)
	}
	if _, err := u.args.def.encodable(it.data); err != nil {
		return e, fmt.Errorf("item %d: %w", i, err)
	}
	if e.EventID == "" {
		e.EventID = derivedID(u.args.def.info.Name, cursor, i, it.data)
	} else if err := wire.CheckEventID(e.EventID); err != nil {
		return e, fmt.Errorf("item %d: %w", i, err)
	}
	if it.text != "" {
		var err error
		if e.Timestamp, err = events.ParseTime(it.text); err != nil {
			return e, fmt.Errorf("item %d: %w", i, err)
		}
		return e, nil
	}
	at := it.time
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
	limit, limited := replayLimit(u.args.def, maxAge)
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
