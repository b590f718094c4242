package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Limits of the witness.
const (
	witnessed    = 12 // occurrences that complete the window
	leastCommon  = 4  // fewer prove nothing
	maxWitnessed = 400
)

// A witness follows one event type in all of its modes during one window of time. Its results are final once done is
// closed.
type witness struct {
	r    *run
	s    *subject
	done chan struct{}
	// skipReason is the reason why there is nothing to compare, or "".
	skipReason string

	// liveTracks are the tracks of the modes that were followed. replays are the pages and replays of the same window.
	liveTracks, replays []*track
	// places are the cursors that the server returned, with their positions.
	places []*place
	// callbacks are the live webhook callbacks that were subscribed successfully.
	callbacks []*callback
	made      *exchange
	// lastID is the last eventId of the window. Later events are not compared. It is "" while the window is open.
	lastID string
	// seamTrack is a stream that was opened at a cursor and then received live events up to seamEnd. It is nil if no
	// event occurred.
	seamTrack *track
	seamEnd   string
	// unanswered is a poll that received no response.
	unanswered *exchange
	// firstCursor is the cursor of the first poll.
	firstCursor *string
}

// A track holds the events received in one way.
type track struct {
	name string
	mode string
	// isOrdered reports whether the mode guarantees an order.
	isOrdered bool
	// firstExchange is an exchange that shows how the track began.
	firstExchange *exchange
	order         []string // eventIds, each once
	byID          map[string]occurrence
	data          map[string]string // by eventId, canonical
	read          int               // how many posts or messages of the live one were read
	over          bool              // a live stream has ended or exceeded its limit
}

func newTrack(name, mode string, first *exchange) *track {
	return &track{name: name, mode: mode, firstExchange: first, isOrdered: mode != wire.ModeWebhook, byID: map[string]occurrence{}, data: map[string]string{}}
}

func (t *track) add(o occurrence) {
	id := o.eventID()
	if _, known := t.byID[id]; !known && len(t.order) < maxWitnessed {
		t.order = append(t.order, id)
		t.byID[id], t.data[id] = o, canonicalJSON(member(o.raw, "data"))
	}
}

// streamQuietly opens a stream outside a check's exchanges and waits for the active notification. The caller stops it.
func (r *run) streamQuietly(ctx context.Context, params map[string]any) (*flow, *exchange, bool) {
	f, x, err := r.firstMessage(ctx, request{method: wire.MethodStream, params: params})
	if err == nil && x.answer.method == wire.NotificationActive {
		return f, x, true
	}
	if err == nil {
		f.stop()
	}
	return nil, nil, false
}

// beginWitness follows the event type with occurrences that offers the most modes.
func (r *run) beginWitness(ctx context.Context, work *sync.WaitGroup) {
	w := &witness{r: r, done: make(chan struct{})}
	r.witness = w
	hooks := r.mainSubscription != nil
	work.Go(func() {
		defer close(w.done)
		if w.s = r.typeWithMostModes(ctx, hooks); w.s == nil {
			w.skipReason = "nothing occurred in time"
			return
		}
		w.follow(ctx, hooks)
	})
}

// typeWithMostModes returns the type with the most modes among those with occurrences, or nil after the timeout. If the
// server offers only webhooks, it returns the webhook type because occurrences cannot be observed.
func (r *run) typeWithMostModes(ctx context.Context, hooks bool) *subject {
	if hooks && len(r.typesWith(wire.ModePoll)) == 0 && len(r.typesWith(wire.ModePush)) == 0 {
		return r.hook
	}
	for {
		over := time.Now().After(r.watchEnd) || ctx.Err() != nil
		var best *subject
		most := 0
		for _, s := range r.types {
			if len(s.pollOccurrences()) == 0 && len(s.streamOccurrences()) == 0 {
				continue
			}
			n := 0
			for _, mode := range wire.DeliveryModes {
				if s.has(mode) && (mode != wire.ModeWebhook || hooks) {
					n++
				}
			}
			if n > most {
				best, most = s, n
			}
		}
		if best != nil || over {
			return best
		}
		pause(ctx, r.o.pace.poll/4)
	}
}

// lostWindow is the reason why the polls of the window cannot be compared.
const lostWindow = "a poll of the window was not answered, or was truncated"

// follow runs the window.
func (w *witness) follow(ctx context.Context, hooks bool) {
	r, s := w.r, w.s
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type stream struct {
		*flow
		t *track
	}
	var streams []stream
	if s.has(wire.ModePush) {
		for _, name := range []string{"a stream", "another stream"} {
			f, x, ok := r.streamQuietly(ctx, s.params(map[string]any{"cursor": nil}))
			if !ok {
				break
			}
			defer f.stop()
			streams = append(streams, stream{f, newTrack(name, wire.ModePush, x)})
		}
	}
	if s.has(wire.ModeWebhook) && hooks {
		for _, name := range []string{"webhooks", "webhooks of another callback"} {
			c := r.newCallback(echoes)
			x, err := r.subscribe(ctx, s, c, nil)
			if err != nil || x.answer.err != nil {
				break
			}
			if w.made == nil {
				w.made = x
			}
			w.callbacks, w.liveTracks = append(w.callbacks, c), append(w.liveTracks, newTrack(name, wire.ModeWebhook, x))
		}
	}
	for _, f := range streams {
		w.liveTracks = append(w.liveTracks, f.t)
	}
	var begin *string
	var polls *track
	if s.has(wire.ModePoll) {
		x, result, ok := w.poll(ctx, nil, 0)
		if w.unanswered != nil {
			w.skipReason = lostWindow
			return
		}
		if ok {
			polls = newTrack("polls", wire.ModePoll, x)
			begin = result.Cursor
			if w.firstCursor = begin; begin != nil {
				w.places = append(w.places, &place{what: "the cursor of a first poll", id: "CUR-4", cursor: *begin, from: x, track: polls})
			}
			w.liveTracks = append(w.liveTracks, polls)
		}
	}
	if len(w.liveTracks) == 0 {
		w.skipReason = "no mode of " + s.Name + " could be followed"
		return
	}

	// The window ends when one mode has received enough events.
	cursor, until := begin, time.Now().Add(r.o.Wait)
	read := func() {
		for i, c := range w.callbacks {
			t, posts := w.liveTracks[i], c.receivedPosts()
			for _, p := range posts[t.read:] {
				if isOccurrence(p) {
					t.add(occurrence{p.body, p.exchange(t.firstExchange)})
				}
			}
			t.read = len(posts)
		}
		for _, f := range streams {
			kept := mustMessages(f.flow)
			for _, m := range kept[f.t.read:] {
				if m.method == wire.NotificationEvent {
					f.t.add(occurrence{m.params, &exchange{request: f.t.firstExchange.request, answer: m}})
				}
			}
			f.t.read = len(kept)
		}
	}
	// Events from before the last mode began cannot be compared with it.
	read()
	before := map[*track]int{}
	for _, t := range w.liveTracks {
		before[t] = len(t.order)
	}
	leading := w.orderedTracks()
	if len(leading) == 0 {
		leading = w.liveTracks
	}
	longest := func() (t *track, n int) {
		for _, one := range leading {
			if since := len(one.order) - before[one]; t == nil || since > n {
				t, n = one, since
			}
		}
		return t, n
	}
	turn := func() bool {
		if polls == nil || cursor == nil {
			return true
		}
		x, result, ok := w.poll(ctx, cursor, 0)
		if !ok || result.Truncated {
			return false
		}
		for _, raw := range result.Events {
			polls.add(occurrence{raw, x})
		}
		if result.Cursor != nil {
			cursor = result.Cursor
			what := "the cursor of a poll"
			if len(result.Events) == 0 {
				what = "the cursor of a poll that brought nothing"
			}
			w.places = append(w.places, &place{what: what, id: "CUR-4", cursor: *cursor, from: x, track: polls, preceding: len(polls.order)})
		}
		return true
	}
	t, n := longest()
	for ; n < witnessed && time.Now().Before(until) && ctx.Err() == nil; t, n = longest() {
		if !turn() {
			w.skipReason = lostWindow
			return
		}
		pause(ctx, r.o.pace.poll)
		read()
	}
	if n < leastCommon {
		w.skipReason = fmt.Sprintf("%d occurrences came in time, too few to compare", n)
		return
	}
	// Later events may be in flight in one mode and already received in another.
	w.lastID = t.order[before[t]+min(n, witnessed)-1]
	// Wait until every mode has received the events of all the other modes. If a delivery fails because of a broken
	// connection, its event arrives with the next retry.
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < max(r.o.pace.maxLag, r.o.Wait) {
		if !turn() {
			w.skipReason = lostWindow
			return
		}
		if read(); w.haveSameEvents(w.liveTracks) || time.Since(began) > r.o.pace.maxLag && !w.isComplete(w.orderedTracks()) {
			break
		}
		pause(ctx, r.o.pace.poll)
	}
	pause(ctx, r.o.pace.settle)
	read()
	for _, f := range streams {
		f.t.over = f.isOver()
		w.addStreamPlaces(f.flow, f.t)
	}
	for i, c := range w.callbacks {
		w.addCallbackPlaces(c, w.liveTracks[i])
	}
	if begin != nil {
		t := newTrack("polls of the window again", wire.ModePoll, nil)
		if t.firstExchange = w.pollToEnd(ctx, *begin, 100, t); t.firstExchange != nil {
			w.replays = append(w.replays, t)
		}
	}
	if len(streams) > 0 {
		w.rereadStream(ctx, streams[0].t.firstExchange, func() bool { read(); return turn() })
	}
	w.tryCursors(ctx)
}

// orderedTracks returns the live tracks except those of webhooks.
func (w *witness) orderedTracks() []*track {
	return slices.DeleteFunc(slices.Clone(w.liveTracks), func(t *track) bool { return !t.isOrdered })
}

// haveSameEvents reports whether all tracks have the same events, up to the newest event of the window.
func (w *witness) haveSameEvents(list []*track) bool {
	for _, t := range list {
		if _, ok := t.byID[w.lastID]; !ok {
			return false
		}
	}
	return w.isComplete(list)
}

// isComplete reports whether every track contains the events of all other tracks.
func (w *witness) isComplete(list []*track) bool {
	for _, t := range list {
		for _, other := range list {
			if firstMissing(t, other, w.lastID) != "" {
				return false
			}
		}
	}
	return true
}

// A polledPage is a received poll result.
type polledPage struct {
	Events    []json.RawMessage `json:"events"`
	Cursor    *string           `json:"cursor"`
	Truncated bool              `json:"truncated"`
	HasMore   bool              `json:"hasMore"`
	// NextPollMs is the delay before the next poll that the server asks for.
	NextPollMs int64 `json:"nextPollMs"`
}

// poll polls the witnessed type, and keeps the first poll that is not answered.
func (w *witness) poll(ctx context.Context, cursor *string, size int64) (*exchange, polledPage, bool) {
	params := map[string]any{"cursor": cursor}
	if size > 0 {
		params["maxEvents"] = size
	}
	x, page, err := w.r.pollQuietly(ctx, w.s, params)
	if err != nil && err != errLimited && x.answer.raw == nil && ctx.Err() == nil && w.unanswered == nil {
		w.unanswered = x
	}
	return x, page, err == nil
}

// pollQuietly polls a type outside a check's exchanges.
func (r *run) pollQuietly(ctx context.Context, s *subject, params map[string]any) (*exchange, polledPage, error) {
	var page polledPage
	x, err := r.call(ctx, wire.MethodPoll, s.params(params))
	if err == nil {
		err = x.result(&page)
	}
	return x, page, err
}

// longestOrder returns the eventIds of the longest ordered track.
func longestOrder(list []*track) (order []string) {
	for _, t := range list {
		if t.isOrdered && len(t.order) > len(order) {
			order = t.order
		}
	}
	return order
}

// canonicalJSON returns the canonical form of a JSON value. Equal values have equal forms.
func canonicalJSON(raw json.RawMessage) string {
	v := jsontext.Value(raw).Clone()
	if v.Canonicalize() != nil {
		return string(raw)
	}
	return string(v)
}

// time returns the occurrence's timestamp.
func (o occurrence) time() (t time.Time) {
	_ = json.Unmarshal(member(o.raw, "timestamp"), &t)
	return t
}

// comparableText returns the text of an occurrence without its eventId and cursor.
func (o occurrence) comparableText() string {
	return string(member(o.raw, "name")) + " " + o.time().UTC().Format(time.RFC3339Nano) + " " + canonicalJSON(member(o.raw, "data"))
}
