package conform

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A place is a cursor from the server and the number of occurrences that came before it.
type place struct {
	what   string
	id     string // the requirement that a wrong cursor breaks
	cursor string
	from   *exchange
	// at is how many occurrences of the track came before it.
	track *track
	at    int
	// lagging is set if the cursor may be older than that.
	lagging bool
	// tried is set once the cursor was used; got are the eventIds that it led to.
	tried *exchange
	got   []string
	// astray is the answer to the cursor if it is truncated and an older cursor is not.
	astray *exchange
}

// must returns the eventIds of the window that came after the cursor.
func (p *place) must(newest string) []string {
	list := p.track.order[p.at:]
	if i := slices.Index(list, newest); i >= 0 {
		return list[:i+1]
	}
	if slices.Contains(p.track.order[:p.at], newest) {
		return nil
	}
	return list
}

// placesOf collects the cursors of a stream.
func (w *witness) placesOf(f *flow, active *exchange, t *track) {
	at := 0
	for _, m := range mustMessages(f) {
		if m.isResponse() {
			continue
		}
		o := occurrence{raw: m.params}
		p := &place{from: &exchange{request: active.request, answer: m}, track: t}
		switch m.method {
		case wire.NotificationActive:
			p.what, p.id = "the cursor of active", "PUSH-1"
		case wire.NotificationEvent:
			p.what, p.id = "the cursor of an event in a stream", "PUSH-3"
			if i := slices.Index(t.order, o.eventID()); i >= 0 {
				at = max(at, i+1)
			}
		case wire.NotificationHeartbeat:
			p.what, p.id = "the cursor of a heartbeat", "PUSH-4"
		}
		if c := o.cursor(); c != nil && p.what != "" {
			p.cursor, p.at = *c, at
			w.places = append(w.places, p)
		}
	}
}

// placesOfCallback collects the cursors of a callback that refuses nothing.
func (w *witness) placesOfCallback(c *callback, t *track) {
	if at := resultCursor(t.from); at != nil {
		w.places = append(w.places, &place{what: "the cursor of events/subscribe", id: "SUB-7", cursor: *at, from: t.from, track: t, lagging: true})
	}
	for _, p := range c.received() {
		o := occurrence{p.body, p.exchange(t.from)}
		if at, i := o.cursor(), slices.Index(t.order, o.eventID()); isOccurrence(p) && at != nil && i >= 0 {
			w.places = append(w.places, &place{what: "the cursor of a delivery", id: "HOOK-6", cursor: *at, from: o.from, track: t, at: i + 1, lagging: true})
		}
	}
}

// resultCursor returns the cursor of a result.
func resultCursor(x *exchange) *string {
	var c *string
	_ = json.Unmarshal(member(x.answer.result, "cursor"), &c)
	return c
}

// triedOfEach is how many cursors of each kind to try.
const triedOfEach = 4

// tryCursors uses a few cursors of each kind once, if events of the window come after them.
func (w *witness) tryCursors(ctx context.Context) {
	newest := w.end
	kinds := map[string][]*place{}
	for _, p := range w.places {
		if len(p.must(newest)) > 0 {
			kinds[p.what] = append(kinds[p.what], p)
		}
	}
	byPoll := w.s.has(wire.ModePoll)
	if !byPoll && !w.s.has(wire.ModePush) {
		return
	}
	for _, list := range kinds {
		for i := range list {
			// Start with the first and take equal steps.
			if len(list) > triedOfEach && i%((len(list)+triedOfEach-1)/triedOfEach) != 0 {
				continue
			}
			p := list[i]
			if w.unanswered != nil {
				return // each of the others would wait as long
			}
			if byPoll {
				t := newTrack("", wire.ModePoll)
				p.tried = w.drain(ctx, p.cursor, 100, t)
				if p.got = t.order; p.tried == nil {
					p.astray = w.astray(ctx, p.cursor)
				}
			} else if t := w.streamed(ctx, p.cursor, "", nil); t != nil {
				p.tried, p.got = t.from, t.order
			}
		}
	}
}

// astray returns the answer to a cursor if it is truncated although an older cursor is not, which retention cannot
// explain.
func (w *witness) astray(ctx context.Context, cursor string) *exchange {
	x, result, ok := w.poll(ctx, &cursor, 1)
	if !ok || !result.truncated || w.begin == nil {
		return nil
	}
	if _, older, good := w.poll(ctx, w.begin, 1); !good || older.truncated {
		return nil
	}
	return x
}
