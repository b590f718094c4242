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

// MaxCursor bounds the text of a cursor, in bytes. What is longer is no cursor of ours (CUR-7).
const MaxCursor = 32 << 10

// ParseCursor reads a cursor that a caller sent.
func ParseCursor(text string) (wire.Cursor, error) {
	if len(text) > MaxCursor {
		return wire.Cursor{}, wire.ErrCursor
	}
	return wire.ParseCursor(text)
}

// NullCursor is the cursor of a type without replay, as JSON (CUR-2).
var NullCursor = []byte("null")

// logCursor is the cursor after a position of the type's own log, as JSON; proof is of the entry there.
func logCursor(typ *Type, epoch uint64, p store.Position, proof uint32) []byte {
	if typ.NoReplay {
		return NullCursor
	}
	c := wire.Cursor{Kind: wire.LogCursor, Name: typ.NameHash, Epoch: epoch, Position: uint64(p), Proof: proof}
	return frame.AppendString(make([]byte, 0, 64), c.String())
}

// Cursor is the cursor after a position of the log, as JSON.
func (t *Topic) Cursor(typ *Type, p store.Position) []byte { return t.life.Load().cursor(t, typ, p) }

func (l *life) cursor(t *Topic, typ *Type, p store.Position) []byte {
	if typ.NoReplay {
		return NullCursor
	}
	return logCursor(typ, l.epoch, p, t.known(l, p))
}

// A Start is where a subscription begins.
type Start struct {
	Position  store.Position
	Truncated bool
	life      *life // that Position is of
}

// Place is the start as cursors have it.
func (s *Start) Place(t *Topic) wire.Cursor { return s.life.place(t, s.Position) }

func (l *life) place(t *Topic, p store.Position) wire.Cursor {
	return wire.Cursor{Epoch: l.epoch, Position: uint64(p), Proof: t.known(l, p)}
}

// Replay are a request's wishes about the past.
type Replay struct {
	Cursor *string
	MaxAge *time.Duration // nil for none
	Since  *Since         // where there is no cursor; nil for now
}

// ReplayOf reads the wishes of params.
func ReplayOf(cursor *string, maxAgeMs *int64) Replay {
	w := Replay{Cursor: cursor}
	if maxAgeMs != nil {
		age := Milliseconds(*maxAgeMs)
		w.MaxAge = &age
	}
	return w
}

// Milliseconds converts without overflow.
func Milliseconds(n int64) time.Duration {
	if n > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

// Start finds the start in the log (CUR-2, CUR-5 to CUR-8). head is the log's head when the
// request arrived.
func (t *Topic) Start(ctx context.Context, typ *Type, head store.Position, w Replay) (Start, error) {
	l := t.life.Load()
	switch {
	case typ.NoReplay, w.Cursor == nil && w.Since == nil:
		return Start{head, w.Cursor == nil && w.Since != nil, l}, nil
	case w.Cursor == nil:
		return t.startSince(ctx, typ, w.Since.by(typ))
	}
	c, ok := ownCursor(typ, *w.Cursor, wire.LogCursor)
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

// startSince is [Topic.Start] at a time in the past, which may not be before the type's ceiling.
func (t *Topic) startSince(ctx context.Context, typ *Type, limit time.Time) (Start, error) {
	l := t.life.Load()
	pos, truncated, err := t.since(ctx, typ, limit)
	if ceiling, ok := ReplayLimit(typ, nil); err == nil && ok && limit.Before(ceiling) {
		from := pos
		pos, _, err = t.since(ctx, typ, ceiling)
		truncated = truncated || pos > from
	}
	return Start{pos, truncated, l}, err
}

// ownCursor reads a cursor of the type's log.
func ownCursor(typ *Type, text string, kinds ...wire.CursorKind) (c wire.Cursor, ok bool) {
	c, err := ParseCursor(text)
	return c, err == nil && slices.Contains(kinds, c.Kind) && c.Name == typ.NameHash && c.Position <= math.MaxInt64
}

// Stands tells whether the log has what a cursor of it stands on, or has evicted it since. It is false of
// one of an earlier epoch, one beyond the head, and one that was given out before an older copy of the log
// was put back (CUR-8). What is no cursor of the log is none that does not stand.
func (t *Topic) Stands(ctx context.Context, typ *Type, cursor string) (bool, error) {
	c, ok := ownCursor(typ, cursor, wire.LogCursor, wire.BothCursor)
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
	if err := t.reach(ctx, p); err != nil {
		return false, err
	}
	if oldest, head := t.Bounds(); p > head {
		return strange(fmt.Sprintf("the log ends at %d", head))
	} else if c.Proof == 0 || p+1 < oldest {
		return true, nil
	}
	proof, err := t.proof(ctx, l, p)
	if err = t.renewed(l, err); err != nil {
		return false, fmt.Errorf("reading entry %d of %s: %w", p, t.current().Name, err)
	}
	if proof != 0 && proof != c.Proof {
		return strange("another entry stands there")
	}
	return true, nil
}

// ReplayLimit is the earliest timestamp that is replayed, if there is one: the later of maxAgeMs
// and the type's ceiling.
func ReplayLimit(typ *Type, maxAge *time.Duration) (time.Time, bool) {
	age := typ.ReplayCeiling
	if maxAge != nil && (age <= 0 || *maxAge < age) {
		age = *maxAge
	} else if age <= 0 {
		return time.Time{}, false
	}
	return typ.Now().Add(-age), true
}

// FirstSince returns the position before the first entry after pos, up to head, whose timestamp is
// not before limit.
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
