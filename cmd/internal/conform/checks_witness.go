package conform

import (
	"context"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// witnessChecks compare the events of one type that the witness received in several modes.
var witnessChecks = []check{
	{name: "modes-event-id", id: "OCC-2", title: "An occurrence has the same eventId in all modes", needs: needWitness, run: checkSameIDs},
	{name: "modes-content", id: "OCC-1", title: "An occurrence has the same content in all modes", needs: needWitness, run: checkSameContent},
	{name: "modes-cursors", id: "CUR-3", title: "All modes of a type have cursors, or none", needs: needWitness, run: checkSameNulls},
	{name: "modes-poll", id: "POLL-7", title: "Polls return every event of other modes", needs: needWitness, run: completenessCheck(wire.ModePoll, false)},
	{name: "modes-stream", id: "PUSH-3", title: "Every stream sends every event of other modes", needs: needWitness, run: completenessCheck(wire.ModePush, false)},
	{name: "modes-webhook", id: "HOOK-6", title: "Every callback receives every event of other modes", needs: needWitness | needHook, run: completenessCheck(wire.ModeWebhook, false)},
	{name: "poll-during-streams", id: "PUSH-10", title: "The server responds to every poll while streams are open", needs: needWitness, run: checkWindowAnswered},
	{name: "stream-order", id: "PUSH-3", title: "Streams and polls have the same order", needs: needWitness, run: checkSameOrder},
	{name: "stream-replay-all", id: "PUSH-1", title: "A later stream replays every event after its cursor", needs: needWitness, run: completenessCheck(wire.ModePush, true)},
	{name: "stream-replay-live", id: "PUSH-1", title: "A stream loses no event between its replay and later events", needs: needWitness, run: checkSeam},
	{name: "delivery-once", id: "HOOK-1", title: "The server does not repeat an accepted event", needs: needWitness | needHook, run: checkTakenOnce},
	{name: "active-cursor-next", id: "PUSH-1", title: "The cursor of active leads to the next event", needs: needWitness, run: cursorCheck("PUSH-1")},
	{name: "stream-cursor-next", id: "PUSH-3", title: "The cursor of an event in a stream leads to the next event", needs: needWitness, run: cursorCheck("PUSH-3")},
	{name: "heartbeat-cursor-next", id: "PUSH-4", title: "The cursor of a heartbeat leads to the next event", needs: needWitness, run: cursorCheck("PUSH-4")},
	{name: "poll-cursor-next", id: "CUR-4", title: "The cursor of a poll leads to the next event", needs: needWitness, run: cursorCheck("CUR-4")},
	{name: "delivery-cursor-next", id: "HOOK-6", title: "The cursor of a delivery is not after later events", needs: needWitness | needHook, run: cursorCheck("HOOK-6")},
	{name: "subscribe-cursor-next", id: "SUB-7", title: "The cursor of a subscription is not after its deliveries", needs: needWitness | needHook, run: cursorCheck("SUB-7")},
}

// awaitWitness waits for the witness to finish. It returns nil if the run ended first. It skips the check if there are
// no events to compare.
func (r *run) awaitWitness(ctx context.Context) (*witness, error) {
	select {
	case <-r.witness.done:
	case <-ctx.Done():
		return nil, verdict.ErrRunEnded
	}
	w := r.witness
	if w.skipReason != "" {
		return w, verdict.Skipped(w.skipReason)
	}
	return w, nil
}

// witnessCheck returns a check of the witness's results.
func witnessCheck(try func(*witness) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		w, err := r.awaitWitness(ctx)
		if err != nil {
			return err
		}
		return try(w)
	}
}

// findSameData finds an occurrence that two tracks contain under different eventIds. No other occurrence may have the
// same data.
func findSameData(t, other *track) (own, theirs occurrence, found bool) {
	by := map[string]occurrence{}
	count := map[string]int{}
	for _, id := range t.order {
		data := t.data[id]
		by[data] = t.byID[id]
		count[data]++
	}
	for _, id := range other.order {
		count[other.data[id]]++
	}
	for _, id := range other.order {
		o := other.byID[id]
		data := other.data[id]
		if _, known := t.byID[id]; known || count[data] != 2 {
			continue
		}
		if mine, ok := by[data]; ok {
			if _, known := other.byID[mine.eventID()]; !known {
				return mine, o, true
			}
		}
	}
	return own, theirs, false
}

// allTracks returns the live tracks and the replays of the window.
func (w *witness) allTracks() []*track { return slices.Concat(w.liveTracks, w.replays) }

var checkSameIDs = witnessCheck(func(w *witness) error {
	list := w.allTracks()
	for i, t := range list {
		for _, other := range list[:i] {
			if own, theirs, found := findSameData(t, other); found {
				return own.violation(fmt.Sprintf("the eventId %s that %s had for it", wire.Shown(theirs.eventID()), other.name), "%s by %s",
					wire.Shown(own.eventID()), t.name)
			}
		}
	}
	return nil
})

var checkSameContent = witnessCheck(func(w *witness) error {
	list := w.allTracks()
	for i, t := range list {
		for _, id := range t.order {
			for _, other := range list[:i] {
				o, ok := other.byID[id]
				if ok && o.comparableText() != t.byID[id].comparableText() {
					return t.byID[id].violation(fmt.Sprintf("%s as %s had it: %s", wire.Shown(id), other.name, wire.Shown(o.comparableText())), "%s by %s",
						wire.Shown(t.byID[id].comparableText()), t.name)
				}
			}
		}
	}
	return nil
})

// checkSameNulls compares the initial cursors of the tracks, which must be either all null or all set.
var checkSameNulls = witnessCheck(func(w *witness) error {
	cursorOf := func(t *track) *string {
		if t.mode == wire.ModePush {
			return (occurrence{raw: t.firstExchange.answer.params}).cursor()
		}
		return resultCursor(t.firstExchange)
	}
	for _, t := range w.liveTracks {
		if one := w.liveTracks[0]; (cursorOf(t) == nil) != (cursorOf(one) == nil) {
			if cursorOf(t) != nil {
				t, one = one, t
			}
			return t.firstExchange.violation("a cursor from "+t.name+", as "+one.name+" gave one", "null")
		}
	}
	for _, t := range w.liveTracks {
		if t.mode == wire.ModePoll {
			continue
		}
		for _, id := range t.order {
			if o := t.byID[id]; (o.cursor() == nil) != (cursorOf(t) == nil) {
				return o.violation("a cursor with each event from "+t.name+", or with none", "%s", orNone(member(o.raw, "cursor")))
			}
		}
	}
	return nil
})

// firstMissing returns the first eventId that other contains and t lacks. The eventId must be between two common
// eventIds and no later than newest.
func firstMissing(t, other *track, newest string) string {
	order := other.order
	if !other.isOrdered {
		order = slices.SortedStableFunc(slices.Values(order), func(a, b string) int {
			return other.byID[a].time().Compare(other.byID[b].time())
		})
	}
	if i := slices.Index(order, newest); i >= 0 {
		order = order[:i+1] // later events may still be in flight
	}
	first, last := -1, -1
	for i, id := range order {
		if _, ok := t.byID[id]; ok {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return ""
	}
	for _, id := range order[first:last] {
		if _, ok := t.byID[id]; !ok {
			return id
		}
	}
	return ""
}

// completenessCheck returns a check that each track of a mode contains every event of the other tracks. If again is
// true, it checks the replays of the window.
func completenessCheck(mode string, again bool) func(context.Context, *run) error {
	return witnessCheck(func(w *witness) error {
		list := w.liveTracks
		if again {
			list = w.replays
		}
		tried := 0
		for _, t := range list {
			if t.mode != mode {
				continue
			}
			tried++
			for _, other := range w.allTracks() {
				if other == t {
					continue
				}
				if _, _, renamed := findSameData(t, other); renamed {
					continue // another check reports this
				}
				if len(t.order) == 0 && len(other.order) >= leastCommon {
					return t.firstExchange.violation(fmt.Sprintf("%s to bring %s, as %s did", t.name, wire.Shown(other.order[0]), other.name), "nothing")
				}
				if _, end := t.byID[w.lastID]; !end && !again && !t.over && len(t.order) > 0 && other.byID[w.lastID].raw != nil {
					return other.byID[w.lastID].violation(fmt.Sprintf("%s to bring %s, as %s did", t.name, wire.Shown(w.lastID), other.name), "nothing after %s",
						wire.Shown(t.order[len(t.order)-1]))
				}
				if id := firstMissing(t, other, w.lastID); id != "" {
					return other.byID[id].violation(fmt.Sprintf("%s to bring %s, as %s did", t.name, wire.Shown(id), other.name), "others before and after it")
				}
			}
		}
		if tried == 0 {
			return skipf("%s was not followed by %s", w.s.Name, mode)
		}
		return nil
	})
}

var checkSeam = witnessCheck(func(w *witness) error {
	if w.seamTrack == nil {
		return skipf("nothing occurred in time after a stream was opened with a cursor")
	}
	for _, other := range w.orderedTracks() {
		if id := firstMissing(w.seamTrack, other, w.seamEnd); id != "" {
			return other.byID[id].violation(fmt.Sprintf("%s to bring %s, as %s did", w.seamTrack.name, wire.Shown(id), other.name), "others before and after it")
		}
	}
	return nil
})

var checkSameOrder = witnessCheck(func(w *witness) error {
	var polls *track
	for _, t := range w.allTracks() {
		if t.mode == wire.ModePoll && (polls == nil || len(t.order) > len(polls.order)) {
			polls = t
		}
	}
	if polls == nil {
		return skipf("%s does not offer poll", w.s.Name)
	}
	for _, t := range w.allTracks() {
		if t.mode != wire.ModePush {
			continue
		}
		at := -1
		for _, id := range t.order {
			i := slices.Index(polls.order, id)
			if i < 0 {
				continue
			}
			if i < at {
				return t.byID[id].violation(fmt.Sprintf("%s before %s, as %s had them", wire.Shown(id), wire.Shown(polls.order[at]), polls.name),
					"it behind by %s", t.name)
			}
			at = i
		}
	}
	return nil
})

var checkTakenOnce = witnessCheck(func(w *witness) error {
	if len(w.callbacks) == 0 {
		return skipf("no callback was followed")
	}
	return expectNoRepeats(w.made, w.callbacks...)
})

// expectNoRepeats checks that no eventId is delivered again after a 2xx response. It allows one repetition because a
// response can be lost in transit.
func expectNoRepeats(from *exchange, callbacks ...*callback) error {
	repeated := 0
	for _, c := range callbacks {
		taken := map[string]bool{}
		for _, p := range c.receivedPosts() {
			if !isOccurrence(p) {
				continue
			}
			id := (occurrence{raw: p.body}).eventID()
			if taken[id] {
				repeated++
			}
			if repeated > 1 {
				return p.exchange(from).violation(wire.Shown(id)+" once, since it was answered 204", "it again, and another one before")
			}
			taken[id] = !p.refused
		}
	}
	return nil
}

// cursorCheck returns a check of the cursors that a requirement covers. Polls from each cursor must return all later
// events, and no earlier ones unless the cursor may lag.
func cursorCheck(id string) func(context.Context, *run) error {
	return witnessCheck(func(w *witness) error {
		tried := 0
		for _, p := range w.places {
			if p.id == id && p.truncatedResponse != nil {
				return p.from.violation(p.what+" to lead to what came after it, as older ones do", "truncated")
			}
			if p.id != id || p.attempt == nil {
				continue
			}
			tried++
			for _, want := range p.expectedIDs(w.lastID) {
				if !slices.Contains(p.returnedIDs, want) {
					return p.from.violation(fmt.Sprintf("%s to lead to %s, which came after it", p.what, wire.Shown(want)), "%s", first(p.returnedIDs))
				}
			}
			for _, got := range p.returnedIDs {
				if !p.mayLag && slices.Contains(p.track.order[:p.preceding], got) {
					return p.from.violation(fmt.Sprintf("%s to be past %s, which came before it", p.what, wire.Shown(got)), "it again")
				}
			}
		}
		if tried == 0 {
			return skipf("the server sent no such cursor with anything after it")
		}
		return nil
	})
}
