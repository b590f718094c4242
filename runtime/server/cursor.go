package server

import (
	"context"
	"math"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Bounds of cursors, in bytes: of their text on the wire, and of an upstream's own cursor, which is
// a part of it. What is longer is no cursor of ours (CUR-7).
const (
	maxCursor   = 32 << 10
	maxUpstream = 16 << 10
)

// parseCursor reads a cursor that a caller sent.
func parseCursor(text string) (wire.Cursor, error) {
	if len(text) > maxCursor {
		return wire.Cursor{}, wire.ErrCursor
	}
	return wire.ParseCursor(text)
}

// nullCursor is the cursor of a type without replay, as JSON (CUR-2).
var nullCursor = []byte("null")

// logCursor is the cursor after a position of the type's own log, as JSON.
func logCursor(d *definition, epoch uint64, p store.Position) []byte {
	if d.info.NoReplay {
		return nullCursor
	}
	c := wire.Cursor{Kind: wire.LogCursor, Name: d.nameHash, Epoch: epoch, Position: uint64(p)}
	return appendString(make([]byte, 0, 64), c.String())
}

// A start is where a subscription begins.
type start struct {
	pos       store.Position
	truncated bool
}

// replay are a request's wishes about the past.
type replay struct {
	cursor *string
	maxAge *time.Duration // nil for none
	// later leaves asking an upstream to its feed's loop, which tells of what is lost.
	later bool
}

func replayOf(cursor *string, maxAgeMs *int64) replay {
	w := replay{cursor: cursor}
	if maxAgeMs != nil {
		age := milliseconds(*maxAgeMs)
		w.maxAge = &age
	}
	return w
}

// milliseconds converts without overflow.
func milliseconds(n int64) time.Duration {
	if n > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

// resolveCursor finds the start in a log (CUR-2, CUR-5 to CUR-7). head is the log's head when the
// request arrived.
func resolveCursor(ctx context.Context, t *topic, d *definition, head store.Position, w replay) (start, error) {
	if w.cursor == nil || d.info.NoReplay {
		return start{pos: head}, nil
	}
	c, err := parseCursor(*w.cursor)
	if err != nil || c.Kind != wire.LogCursor || c.Name != d.nameHash {
		return start{pos: head, truncated: true}, nil
	}
	oldest, now := t.bounds()
	st := start{pos: store.Position(c.Position)}
	switch {
	case c.Epoch != t.log.Epoch():
		st = start{pos: oldest - 1, truncated: true}
	case st.pos > now:
		return start{pos: head, truncated: true}, nil
	case st.pos+1 < oldest:
		st = start{pos: oldest - 1, truncated: true}
	}
	limit, ok := replayLimit(d, w.maxAge)
	if !ok {
		return st, nil
	}
	pos, err := firstSince(ctx, t, st.pos, now, limit)
	if err != nil {
		return start{}, err
	}
	return start{pos: pos, truncated: st.truncated || pos > st.pos}, nil
}

// replayLimit is the earliest timestamp that is replayed, if there is one: the later of maxAgeMs
// and the type's ceiling.
func replayLimit(d *definition, maxAge *time.Duration) (time.Time, bool) {
	age := d.options.replayCeiling
	if maxAge != nil && (age <= 0 || *maxAge < age) {
		age = *maxAge
	} else if age <= 0 {
		return time.Time{}, false
	}
	return time.Now().Add(-age), true
}

// firstSince returns the position before the first entry after pos, up to head, whose timestamp is
// not before limit.
func firstSince(ctx context.Context, t *topic, pos, head store.Position, limit time.Time) (store.Position, error) {
	for pos < head {
		b, err := t.read(ctx, pos, 4*readChunk)
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
