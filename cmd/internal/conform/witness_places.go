package conform

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A place is a cursor from the server and the number of occurrences that precede it.
type place struct {
	what   string
	id     string // the requirement that a wrong cursor breaks
	cursor string
	from   *exchange
	// preceding is the number of occurrences in the track that precede the cursor.
	track     *track
	preceding int
	// mayLag reports whether the cursor may be older than that.
	mayLag bool
	// attempt is the exchange that used the cursor. returnedIDs holds the eventIds that it returned.
	attempt     *exchange
	returnedIDs []string
	// truncatedResponse is the response to the cursor if it was truncated although the response to an older cursor was
	// not.
	truncatedResponse *exchange
}

// expectedIDs returns the eventIds of the window that a poll from the cursor must return.
func (p *place) expectedIDs(newest string) []string {
	list := p.track.order[p.preceding:]
	if i := slices.Index(list, newest); i >= 0 {
		return list[:i+1]
	}
	if slices.Contains(p.track.order[:p.preceding], newest) {
		return nil
	}
	return list
}

// addStreamPlaces records the cursors of a stream.
func (w *witness) addStreamPlaces(f *flow, t *track) {
	at := 0
	for _, m := range mustMessages(f) {
		if m.isResponse() {
			continue
		}
		o := occurrence{raw: m.params}
		p := &place{from: &exchange{request: t.firstExchange.request, answer: m}, track: t}
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
			p.cursor, p.preceding = *c, at
			w.places = append(w.places, p)
		}
	}
}

// addCallbackPlaces records the cursors of a callback that rejects nothing.
func (w *witness) addCallbackPlaces(c *callback, t *track) {
	if at := resultCursor(t.firstExchange); at != nil {
		w.places = append(w.places, &place{what: "the cursor of events/subscribe", id: "SUB-7", cursor: *at, from: t.firstExchange, track: t, mayLag: true})
	}
	for _, p := range c.receivedPosts() {
		o := occurrence{p.body, p.exchange(t.firstExchange)}
		if at, i := o.cursor(), slices.Index(t.order, o.eventID()); isOccurrence(p) && at != nil && i >= 0 {
			w.places = append(w.places, &place{what: "the cursor of a delivery", id: "HOOK-6", cursor: *at, from: o.from, track: t, preceding: i + 1, mayLag: true})
		}
	}
}

// resultCursor returns the cursor of a result.
func resultCursor(x *exchange) *string {
	var c *string
	_ = json.Unmarshal(member(x.answer.result, "cursor"), &c)
	return c
}

// cursorsPerKind is the number of cursors of each kind to try.
const cursorsPerKind = 4

// tryCursors uses a few cursors of each kind, if the window has later events. It uses each cursor once.
func (w *witness) tryCursors(ctx context.Context) {
	newest := w.lastID
	kinds := map[string][]*place{}
	for _, p := range w.places {
		if len(p.expectedIDs(newest)) > 0 {
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
			if len(list) > cursorsPerKind && i%((len(list)+cursorsPerKind-1)/cursorsPerKind) != 0 {
				continue
			}
			p := list[i]
			if w.unanswered != nil {
				return // each of the others would wait as long
			}
			if byPoll {
				t := newTrack("", wire.ModePoll, nil)
				p.attempt = w.pollToEnd(ctx, p.cursor, 100, t)
				if p.returnedIDs = t.order; p.attempt == nil {
					p.truncatedResponse = w.pollForTruncation(ctx, p.cursor)
				}
			} else if t := w.replayStream(ctx, p.cursor, "", nil); t != nil {
				p.attempt, p.returnedIDs = t.firstExchange, t.order
			}
		}
	}
}

// pollForTruncation polls from a cursor. It returns the response if it is truncated although the response to an older
// cursor is not. Retention cannot explain that.
func (w *witness) pollForTruncation(ctx context.Context, cursor string) *exchange {
	x, result, ok := w.poll(ctx, &cursor, 1)
	if !ok || !result.Truncated || w.firstCursor == nil {
		return nil
	}
	if _, older, good := w.poll(ctx, w.firstCursor, 1); !good || older.Truncated {
		return nil
	}
	return x
}
