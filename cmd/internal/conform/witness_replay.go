package conform

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// pollToEnd polls from the cursor until it reaches the end or has enough events.
func (w *witness) pollToEnd(ctx context.Context, cursor string, size int64, t *track) (from *exchange) {
	newest, most, empty := w.lastID, 2*len(longestOrder(w.liveTracks)), 0
	for range maxWitnessed {
		x, result, ok := w.poll(ctx, &cursor, size)
		if from == nil {
			from = x
		}
		if !ok || result.Truncated {
			return nil
		}
		for _, raw := range result.Events {
			t.add(occurrence{raw, x})
		}
		if _, all := t.byID[newest]; all || len(t.order) > most || result.Cursor == nil || !result.HasMore && len(result.Events) == 0 || !result.HasMore && size != 1 && size != 2 {
			return from
		}
		// A server may announce more events forever.
		if empty++; len(result.Events) > 0 || *result.Cursor != cursor {
			empty = 0
		}
		if cursor = *result.Cursor; empty >= maxEmptyPages {
			return from
		}
	}
	return from
}

// rereadStream reads the window again with a stream from the cursor of an earlier stream. It continues until live
// events arrive. advance polls for more events of the live tracks.
func (w *witness) rereadStream(ctx context.Context, active *exchange, advance func() bool) {
	at := (occurrence{raw: active.answer.params}).cursor()
	if at == nil {
		return
	}
	if t := w.replayStream(ctx, *at, "a stream that is opened later", advance); t != nil {
		w.replays = append(w.replays, t)
	}
}

// openingEvents is the number of occurrences to wait for after a stream was opened. The first may have been in flight,
// but the last certainly occurred after the opening.
const openingEvents = 2

// followLive reads a newly opened stream until the live tracks have new occurrences and the stream has them as well.
func (w *witness) followLive(ctx context.Context, f *flow, t *track, advance func() bool) {
	ways := w.orderedTracks()
	leading := ways[len(ways)-1] // polls, if there are any
	if !advance() {
		return
	}
	opened := len(leading.order)
	for end := time.Now().Add(2 * w.r.o.pace.maxLag); len(leading.order) < opened+openingEvents; {
		if !time.Now().Before(end) || !advance() || ctx.Err() != nil {
			return
		}
		pause(ctx, w.r.o.pace.poll)
	}
	last := leading.order[opened+openingEvents-1]
	waiting, cancel := context.WithTimeout(ctx, w.r.o.pace.maxLag)
	defer cancel()
	f.await(waiting, func(m message) bool {
		return m.method == wire.NotificationEvent && (occurrence{raw: m.params}).eventID() == last
	})
	if advance() {
		w.seamTrack, w.seamEnd = t, last
	}
}

// replayStream reads a stream from a cursor until it has the whole window. If advance is not nil, it then reads live
// events.
func (w *witness) replayStream(ctx context.Context, cursor, name string, advance func() bool) *track {
	f, x, ok := w.r.streamQuietly(ctx, w.s.params(map[string]any{"cursor": cursor}))
	if !ok {
		return nil
	}
	defer f.stop()
	if truncated, _ := boolMember(x, x.answer.params, "truncated"); truncated {
		return nil
	}
	t := newTrack(name, wire.ModePush, x)
	waiting, cancel := context.WithTimeout(ctx, w.r.o.pace.maxLag)
	defer cancel()
	last := w.lastID
	f.await(waiting, func(m message) bool {
		if m.method != wire.NotificationEvent {
			return false
		}
		t.add(occurrence{m.params, &exchange{request: x.request, answer: m}})
		_, done := t.byID[last]
		return done
	})
	if advance != nil {
		w.followLive(ctx, f, t, advance)
	}
	for _, o := range f.occurrences(x.request) {
		t.add(o)
	}
	if name != "" {
		// The cursors of replayed events give the stream's position.
		for i, id := range t.order {
			if c := t.byID[id].cursor(); c != nil {
				w.places = append(w.places, &place{what: "the cursor of a replayed event", id: "PUSH-3", cursor: *c, from: t.byID[id].from, track: t, preceding: i + 1})
			}
		}
	}
	return t
}
