package topic

import (
	"context"
	"math"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
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

// logCursor is the cursor after a position of the type's own log, as JSON.
func logCursor(typ *Type, epoch uint64, p store.Position) []byte {
	if typ.NoReplay {
		return NullCursor
	}
	c := wire.Cursor{Kind: wire.LogCursor, Name: typ.NameHash, Epoch: epoch, Position: uint64(p)}
	return frame.AppendString(make([]byte, 0, 64), c.String())
}

// Cursor is the cursor after a position of the log, as JSON.
func (t *Topic) Cursor(typ *Type, p store.Position) []byte { return logCursor(typ, t.Epoch(), p) }

// A Start is where a subscription begins.
type Start struct {
	Position  store.Position
	Truncated bool
}

// Replay are a request's wishes about the past.
type Replay struct {
	Cursor *string
	MaxAge *time.Duration // nil for none
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

// Start finds the start in the log (CUR-2, CUR-5 to CUR-7). head is the log's head when the
// request arrived.
func (t *Topic) Start(ctx context.Context, typ *Type, head store.Position, w Replay) (Start, error) {
	if w.Cursor == nil || typ.NoReplay {
		return Start{Position: head}, nil
	}
	c, err := ParseCursor(*w.Cursor)
	if err != nil || c.Kind != wire.LogCursor || c.Name != typ.NameHash {
		return Start{head, true}, nil
	}
	st := Start{Position: store.Position(c.Position)}
	if st.Position > math.MaxInt64 {
		return Start{head, true}, nil // no log has it
	}
	if c.Epoch == t.Epoch() {
		if err := t.reach(ctx, st.Position); err != nil {
			return Start{}, err
		}
	}
	oldest, now := t.Bounds()
	switch {
	case c.Epoch != t.Epoch():
		st = Start{oldest - 1, true}
	case st.Position > now:
		return Start{head, true}, nil
	case st.Position+1 < oldest:
		st = Start{oldest - 1, true}
	}
	limit, ok := ReplayLimit(typ, w.MaxAge)
	if !ok {
		return st, nil
	}
	pos, err := t.FirstSince(ctx, st.Position, now, limit)
	if err != nil {
		return Start{}, err
	}
	return Start{pos, st.Truncated || pos > st.Position}, nil
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
	return time.Now().Add(-age), true
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
