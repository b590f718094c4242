package feed

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A reader is the common part of a [Source] and a [Poll]. It holds the position in the results of the check and, if the
// type also has an emitter, reads its log.
type reader struct {
	stepWalk
	seat    Seat
	emits   bool         // the type has an emitter
	emit    topic.Reader // of the type's log, if emits
	release func()       // decrements the principal's number of readers
}

// openReader returns a reader that is at the start in the type's log. It also returns the start in the check, with a
// nil place for the upstream's head. The result truncated reports whether the reader was unable to start at the
// requested position.
func openReader(ctx context.Context, at Seat, c *Check, a *topic.Arguments, start Start) (r reader, w topic.Replay, place *checkpoint, truncated bool, err error) {
	release, err := at.Feeds.addReader(at.Principal, a, start.Later)
	if err != nil {
		return r, w, nil, false, err
	}
	u := at.Feeds.upstream(c, a, at.Principal)
	w, place, truncated = u.resolveStart(start.Replay)
	r = reader{stepWalk: stepWalk{u: u, id: at.ID}, seat: at, emits: c.Emits, release: release}
	if c.Emits {
		t := at.Feeds.host.Topic()
		from, err := resolveCombined(ctx, t, a.Of, start.Head, w)
		if err != nil {
			release()
			return r, w, nil, false, err
		}
		r.emit = t.ReaderFrom(a, at.ID, at.Bell, from)
		r.skipChecked()
		truncated = truncated || from.Truncated
	}
	return r, w, place, truncated, nil
}

// skipChecked makes emit skip the occurrences that the check has found.
func (r *reader) skipChecked() {
	f, hash := r.seat.Feeds, r.u.hash
	r.emit.SkipEvents(func(id string) bool { return !f.deliversFromEmit(hash, id) })
}

// Rebind switches to the check and arguments of another definition. It keeps the cursor and does not call the check.
func (r *reader) Rebind(c *Check, a *topic.Arguments) {
	release, _ := r.seat.Feeds.addReader(r.seat.Principal, a, true) // limits apply only to new readers
	r.release()
	place, _ := r.u.parseCheckpoint(r.last) // this package made the cursor
	u := r.seat.Feeds.upstream(c, a, r.seat.Principal)
	r.stepWalk = stepWalk{u: u, id: r.id, cursors: r.cursors, at: place, last: u.cursorOf(place)}
	if r.release = release; r.emits {
		r.emit.Rebind(a)
		r.skipChecked()
	}
}

// Park implements [topic.Parker]. An emit ends the wait.
func (r *reader) Park() bool { return !r.emits || r.emit.Park() }

// Unpark implements [topic.Parker].
func (r *reader) Unpark() store.Position {
	if !r.emits {
		return 0
	}
	return r.emit.Unpark()
}

// Cursor implements [topic.Parker].
func (r *reader) Cursor() []byte {
	if !r.emits {
		return frame.AppendString(nil, r.last)
	}
	return encodeCombinedCursor(r.emit.Place(), r.last)
}

// Close releases all resources.
func (r *reader) Close() {
	if r.emits {
		r.emit.Close()
	}
	r.release()
}

// encodeCombinedCursor returns the JSON encoding of the cursor that [combineCursors] returns.
func encodeCombinedCursor(log wire.Cursor, check string) []byte {
	text, err := combineCursors(log, check)
	if err != nil {
		return topic.NullCursor
	}
	return frame.AppendString(nil, text)
}

// resolveCombined returns the start position in the type's log for a request whose cursor combines the positions in
// both sources.
func resolveCombined(ctx context.Context, t *topic.Topic, typ *topic.Type, head store.Position, w topic.Replay) (topic.Start, error) {
	if w.Cursor != nil {
		c, err := topic.ParseCursor(*w.Cursor)
		if err != nil {
			return topic.Start{Position: head, Truncated: true}, nil
		}
		c.Kind = wire.LogCursor
		text := c.String()
		w.Cursor = &text
	}
	return t.Start(ctx, typ, head, w)
}
