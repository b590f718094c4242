package topic

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// MaxCursor is the maximum length of a cursor, in bytes. A longer string is not a valid cursor (CUR-7).
const MaxCursor = 32 << 10

// ParseCursor parses a cursor sent by a caller.
func ParseCursor(text string) (wire.Cursor, error) {
	if len(text) > MaxCursor {
		return wire.Cursor{}, wire.ErrCursor
	}
	return wire.ParseCursor(text)
}

// NullCursor is the cursor of a type without replay, as JSON (CUR-2).
var NullCursor = []byte("null")

// logCursor returns the JSON encoding of the cursor after position p in the type's log. The parameter proof is the
// proof of the entry at p.
func logCursor(typ *Type, epoch uint64, p store.Position, proof uint32) []byte {
	if typ.NoReplay {
		return NullCursor
	}
	return frame.AppendString(make([]byte, 0, 64), logCursorText(typ, epoch, p, proof))
}

func logCursorText(typ *Type, epoch uint64, p store.Position, proof uint32) string {
	return wire.Cursor{Kind: wire.LogCursor, Name: typ.NameHash, Epoch: epoch, Position: uint64(p), Proof: typ.cursorProof(proof)}.String()
}

// Cursor returns the cursor after position p in the log, or nil for a type without replay.
func (t *Topic) Cursor(typ *Type, p store.Position) *string {
	if typ.NoReplay {
		return nil
	}
	l := t.life.Load()
	text := logCursorText(typ, l.epoch, p, t.cursorProof(l, p))
	return &text
}

func (l *epochLog) cursor(t *Topic, typ *Type, p store.Position) []byte {
	if typ.NoReplay {
		return NullCursor
	}
	return logCursor(typ, l.epoch, p, t.cursorProof(l, p))
}

// A Start is the position at which a subscription begins.
type Start struct {
	Position  store.Position
	Truncated bool
	life      *epochLog // in which Position is valid
}

// Place returns the start as a cursor of typ, without a kind or name.
func (s *Start) Place(t *Topic, typ *Type) wire.Cursor { return s.life.placeAt(t, typ, s.Position) }

func (l *epochLog) placeAt(t *Topic, typ *Type, p store.Position) wire.Cursor {
	return wire.Cursor{Epoch: l.epoch, Position: uint64(p), Proof: typ.cursorProof(t.cursorProof(l, p))}
}

// Replay holds the request parameters that select past events.
type Replay struct {
	Cursor *string
	MaxAge *time.Duration // nil for none
	Since  *Since         // used without a cursor; nil for now
}

// ReplayOf returns the Replay for the params of a request.
func ReplayOf(cursor *string, maxAgeMs *int64) Replay {
	w := Replay{Cursor: cursor}
	if maxAgeMs != nil {
		age := Milliseconds(*maxAgeMs)
		w.MaxAge = &age
	}
	return w
}

// Milliseconds converts n milliseconds to a Duration. A value that overflows becomes the largest Duration.
func Milliseconds(n int64) time.Duration {
	if n > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

// Now returns the position at which a request without a cursor starts. The parameter head is the head that this process
// knew when the request arrived. If the log is shared, Now queries the store, because another process may have
// acknowledged entries that this process has not read (CUR-2). For other requests, and for a nil Topic of an event type
// without a log, Now returns head.
func (t *Topic) Now(ctx context.Context, typ *Type, head store.Position, w Replay) (store.Position, error) {
	if t == nil {
		return head, nil
	}
	if _, shared := t.Seen(); !shared || !typ.NoReplay && (w.Cursor != nil || w.Since != nil) {
		return head, nil
	}
	return t.Latest(ctx)
}

// Start returns the start position for a request (CUR-2, CUR-5 to CUR-8). The parameter head is the head of the log
// when the request arrived.
func (t *Topic) Start(ctx context.Context, typ *Type, head store.Position, w Replay) (Start, error) {
	l := t.life.Load()
	switch {
	case typ.NoReplay, w.Cursor == nil && w.Since == nil:
		return Start{head, w.Cursor == nil && w.Since != nil, l}, nil
	case w.Cursor == nil:
		return t.startSince(ctx, typ, w.Since.resolve(typ))
	}
	c, ok := parseOwnCursor(typ, *w.Cursor, wire.LogCursor)
	if !ok {
		return Start{head, true, l}, nil
	}
	stands, err := t.stands(ctx, c)
	if err != nil {
		return Start{}, err
	}
	l = t.life.Load()
	oldest, now := t.Bounds()
	st := Start{store.Position(c.Position), false, l}
	if !stands || c.Epoch != l.epoch || st.Position+1 < oldest {
		st = Start{oldest - 1, true, l}
	}
	limit, ok := ReplayLimit(typ, w.MaxAge)
	if !ok {
		return st, nil
	}
	pos, err := t.FirstSince(ctx, st.Position, now, limit)
	if err != nil {
		return Start{}, err
	}
	return Start{pos, st.Truncated || pos > st.Position, l}, nil
}

// startSince is like [Topic.Start], but starts at a time in the past. The type's replay ceiling limits the start time.
func (t *Topic) startSince(ctx context.Context, typ *Type, limit time.Time) (Start, error) {
	l := t.life.Load()
	pos, truncated, err := t.startAfterTime(ctx, typ, limit)
	if ceiling, ok := ReplayLimit(typ, nil); err == nil && ok && limit.Before(ceiling) {
		from := pos
		pos, _, err = t.startAfterTime(ctx, typ, ceiling)
		truncated = truncated || pos > from
	}
	return Start{pos, truncated, l}, err
}

// parseOwnCursor parses a cursor of the type's log.
func parseOwnCursor(typ *Type, text string, kinds ...wire.CursorKind) (c wire.Cursor, ok bool) {
	c, err := ParseCursor(text)
	return c, err == nil && slices.Contains(kinds, c.Kind) && c.Name == typ.NameHash && c.Position <= math.MaxInt64
}

// Stands reports whether the log contains, or has evicted, the entry of the cursor. It returns false if the cursor
// belongs to an earlier epoch or lies beyond the head. It also returns false if the cursor was issued before an older
// copy of the log was restored (CUR-8). It returns true for a string that is not a cursor of this log.
func (t *Topic) Stands(ctx context.Context, typ *Type, cursor string) (bool, error) {
	c, ok := parseOwnCursor(typ, cursor, wire.LogCursor, wire.BothCursor)
	if !ok || typ.NoReplay {
		return true, nil
	}
	return t.stands(ctx, c)
}

func (t *Topic) stands(ctx context.Context, c wire.Cursor) (bool, error) {
	l, p := t.life.Load(), store.Position(c.Position)
	strange := func(what string) (bool, error) {
		if t.options.Strange != nil {
			t.options.Strange(what, p)
		}
		return false, nil
	}
	if c.Epoch != l.epoch {
		return strange("it is of another epoch")
	}
	if err := t.catchUp(ctx, p); err != nil {
		return false, err
	}
	if oldest, head := t.Bounds(); p > head {
		return strange(fmt.Sprintf("the log ends at %d", head))
	} else if c.Proof == 0 || p+1 < oldest {
		return true, nil
	}
	proof, err := t.entryProof(ctx, l, p)
	if err = t.handleNewEpoch(l, err); err != nil {
		return false, fmt.Errorf("reading entry %d of %s: %w", p, t.current().Name, err)
	}
	if proof != 0 && proof != c.Proof {
		return strange("the log has a different entry there")
	}
	return true, nil
}

// ReplayLimit returns the earliest timestamp to replay, derived from maxAge and the type's ceiling. The stricter limit
// wins. It returns false if neither of them sets a limit.
func ReplayLimit(typ *Type, maxAge *time.Duration) (time.Time, bool) {
	age := typ.ReplayCeiling
	if maxAge != nil && (age <= 0 || *maxAge < age) {
		age = *maxAge
	} else if age <= 0 {
		return time.Time{}, false
	}
	return typ.Now().Add(-age), true
}

// FirstSince returns the position before the first entry after pos, up to head, with a timestamp not before limit.
func (t *Topic) FirstSince(ctx context.Context, pos, head store.Position, limit time.Time) (store.Position, error) {
	for pos < head {
		b, err := t.Read(ctx, pos, 4*ReadChunk)
		if err != nil {
			return 0, err
		}
		if len(b.Entries) == 0 {
			return pos, nil
		}
		for i := range b.Entries {
			if e := &b.Entries[i]; e.Position > head || !e.Timestamp.Before(limit) {
				return e.Position - 1, nil
			}
		}
		pos = b.Entries[len(b.Entries)-1].Position
	}
	return pos, nil
}
