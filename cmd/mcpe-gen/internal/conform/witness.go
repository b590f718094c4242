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

// Bounds of what the witness follows.
const (
	witnessed    = 12 // occurrences after which it has seen enough
	leastCommon  = 4  // fewer tell nothing
	maxWitnessed = 400
)

// A witness follows one event type by all its modes over one window. What it has seen is there once done is closed;
// nothing of it changes afterwards.
type witness struct {
	r    *run
	s    *subject
	done chan struct{}
	// why tells that nothing was seen that could be compared.
	why string

	// live are the modes that were followed, pages and replays what was read again, from the beginning of the window.
	live, again []*track
	// places are the cursors that were given, and where.
	places []*place
	// callbacks are those of live webhooks, whose first subscription is made.
	callbacks []*callback
	made      *exchange
	// end is the last eventId of the window, which is the end of what is compared; "" while it goes on.
	end string
	// young is a poll whose cursor, just given, was answered with truncated, while one from before was good, or another
	// one fared no better.
	young *exchange
	// seam is a stream that was opened with a cursor and then brought what occurred, up to seamEnd; nil if nothing occurred.
	seam    *track
	seamEnd string
	// unanswered is a poll that had no answer.
	unanswered *exchange
	// begin is the cursor of the first poll.
	begin *string
}

// A track is what one way of following brought.
type track struct {
	name string
	mode string
	// ordered tells that the order is a part of what is promised.
	ordered bool
	// from is an exchange that shows how it began.
	from  *exchange
	order []string // eventIds, each once
	byID  map[string]occurrence
	data  map[string]string // by eventId, canonical
	read  int               // how many posts or messages of the live one were looked at
	over  bool              // a live stream has ended, or brought more than is kept
}

func newTrack(name, mode string) *track {
	return &track{name: name, mode: mode, ordered: mode != wire.ModeWebhook, byID: map[string]occurrence{}, data: map[string]string{}}
}

func (t *track) add(o occurrence) {
	id := o.eventID()
	if _, known := t.byID[id]; !known && len(t.order) < maxWitnessed {
		t.order = append(t.order, id)
		t.byID[id], t.data[id] = o, canonical(member(o.raw, "data"))
	}
}

// quiet sends a request that is none of a check's.
func (r *run) quiet(ctx context.Context, method string, params map[string]any) (*exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.pace.call)
	defer cancel()
	q := request{id: r.nextID(), method: method, params: params}
	body := q.encode(r.revision)
	f, err := r.link.start(ctx, q, body)
	if err != nil {
		return &exchange{request: body}, err
	}
	defer f.stop()
	return f.response(ctx, body)
}

// quietly opens a stream that is none of a check's, and waits for active. The caller stops it.
func (r *run) quietly(ctx context.Context, params map[string]any) (*flow, *exchange, bool) {
	q := request{id: r.nextID(), method: wire.MethodStream, params: params}
	body := q.encode(r.revision)
	f, err := r.link.start(ctx, q, body)
	if err != nil {
		return nil, nil, false
	}
	waiting, cancel := context.WithTimeout(ctx, r.o.pace.call)
	defer cancel()
	m, ok := f.await(waiting, func(message) bool { return true })
	if !ok || m.method != wire.NotificationActive {
		f.stop()
		return nil, nil, false
	}
	return f, &exchange{request: body, answer: m, status: f.status, contentType: f.contentType}, true
}

// beginWitness follows the type that offers most modes of those that occur.
func (r *run) beginWitness(ctx context.Context, work *sync.WaitGroup) {
	w := &witness{r: r, done: make(chan struct{})}
	r.witness = w
	hooks := r.main != nil
	work.Go(func() {
		defer close(w.done)
		if w.s = r.occurring(ctx, hooks); w.s == nil {
			w.why = "nothing occurred in time"
			return
		}
		w.follow(ctx, hooks)
	})
}

// occurring is the type that has most modes of those that have occurred, or nil in the end. Where there are webhooks alone,
// nothing else shows what occurs.
func (r *run) occurring(ctx context.Context, hooks bool) *subject {
	if hooks && len(r.offered(wire.ModePoll)) == 0 && len(r.offered(wire.ModePush)) == 0 {
		return r.hook
	}
	for {
		over := time.Now().After(r.until) || ctx.Err() != nil
		var best *subject
		most := 0
		for _, s := range r.types {
			if len(s.polled()) == 0 && len(s.pushed()) == 0 {
				continue
			}
			n := 0
			for _, mode := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
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

// lostWindow says that the polls of the window cannot be compared.
const lostWindow = "a poll of the window was not answered, or was truncated"

// follow makes the window.
func (w *witness) follow(ctx context.Context, hooks bool) {
	r, s := w.r, w.s
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type stream struct {
		*flow
		t      *track
		active *exchange
	}
	var streams []stream
	if s.has(wire.ModePush) {
		for _, name := range []string{"a stream", "another stream"} {
			f, x, ok := r.quietly(ctx, s.params(map[string]any{"cursor": nil}))
			if !ok {
				break
			}
			defer f.stop()
			t := newTrack(name, wire.ModePush)
			t.from = x
			streams = append(streams, stream{f, t, x})
		}
	}
	if s.has(wire.ModeWebhook) && hooks {
		for _, name := range []string{"webhooks", "webhooks of another callback"} {
			c := r.callback(echoes)
			x, err := r.subscribeQuietly(ctx, s, c, nil)
			if err != nil || x.answer.err != nil {
				break
			}
			if w.made == nil {
				w.made = x
			}
			t := newTrack(name, wire.ModeWebhook)
			t.from = x
			w.callbacks, w.live = append(w.callbacks, c), append(w.live, t)
		}
	}
	for _, f := range streams {
		w.live = append(w.live, f.t)
	}
	var begin *string
	var polls *track
	if s.has(wire.ModePoll) {
		x, result, ok := w.poll(ctx, nil, 0)
		if w.unanswered != nil {
			w.why = lostWindow
			return
		}
		if ok {
			polls = newTrack("polls", wire.ModePoll)
			polls.from = x
			begin = result.Cursor
			if w.begin = begin; begin != nil {
				w.places = append(w.places, &place{what: "the cursor of a first poll", id: "CUR-4", cursor: *begin, from: x, track: polls})
			}
			w.live = append(w.live, polls)
		}
	}
	if len(w.live) == 0 {
		w.why = "no mode of " + s.Name + " could be followed"
		return
	}

	// The window: until one way of following has enough.
	cursor, until := begin, time.Now().Add(r.o.Wait)
	read := func() {
		for i, c := range w.callbacks {
			t, posts := w.live[i], c.received()
			for _, p := range posts[t.read:] {
				if isOccurrence(p) {
					t.add(occurrence{p.body, p.exchange(t.from)})
				}
			}
			t.read = len(posts)
		}
		for _, f := range streams {
			kept := mustMessages(f.flow)
			for _, m := range kept[f.t.read:] {
				if m.method == wire.NotificationEvent {
					f.t.add(occurrence{m.params, &exchange{request: f.active.request, answer: m}})
				}
			}
			f.t.read = len(kept)
		}
	}
	// What one way brought before the last one began says nothing about that one.
	read()
	before := map[*track]int{}
	for _, t := range w.live {
		before[t] = len(t.order)
	}
	leading := w.ordered()
	if len(leading) == 0 {
		leading = w.live
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
		if ok && result.truncated {
			// Where a cursor from before is good, retention has forgotten nothing.
			if _, older, good := w.poll(ctx, s.first, 0); good && s.first != nil && !older.truncated && w.young == nil {
				w.young = x
			}
			if _, anew, good := w.poll(ctx, nil, 0); good && anew.Cursor != nil && w.young == nil {
				if again, same, ok := w.poll(ctx, anew.Cursor, 0); ok && same.truncated {
					w.young = again
				}
			}
		}
		if !ok || result.truncated && w.young == nil {
			return false
		}
		for _, raw := range result.events {
			polls.add(occurrence{raw, x})
		}
		if result.Cursor != nil {
			cursor = result.Cursor
			what := "the cursor of a poll"
			if len(result.events) == 0 {
				what = "the cursor of a poll that brought nothing"
			}
			w.places = append(w.places, &place{what: what, id: "CUR-4", cursor: *cursor, from: x, track: polls, at: len(polls.order)})
		}
		return true
	}
	t, n := longest()
	for ; n < witnessed && time.Now().Before(until) && ctx.Err() == nil; t, n = longest() {
		if !turn() {
			w.why = lostWindow
			return
		}
		pause(ctx, r.o.pace.poll)
		read()
	}
	if n < leastCommon {
		w.why = fmt.Sprintf("%d occurrences came in time, too few to compare", n)
		return
	}
	// What comes from now on may be under way in one mode and there in another.
	w.end = t.order[before[t]+min(n, witnessed)-1]
	// What is under way arrives: all that has come by one is waited for by the others. A delivery whose connection
	// broke comes when it is due again.
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < max(r.o.pace.arrive, r.o.Wait) {
		if !turn() {
			w.why = lostWindow
			return
		}
		if read(); w.agree(w.live) || time.Since(began) > r.o.pace.arrive && !w.whole(w.ordered()) {
			break
		}
		pause(ctx, r.o.pace.poll)
	}
	pause(ctx, r.o.pace.settle)
	read()
	for _, f := range streams {
		f.t.over = f.over()
		w.placesOf(f.flow, f.active, f.t)
	}
	for i, c := range w.callbacks {
		w.placesOfCallback(c, w.live[i])
	}
	if begin != nil {
		for _, size := range []int64{1, 2, 100} {
			w.page(ctx, begin, size)
		}
	}
	if len(streams) > 0 {
		w.replay(ctx, streams[0].active, func() bool { read(); return turn() })
	}
	w.tryCursors(ctx)
}

// ordered are the live ways but webhooks.
func (w *witness) ordered() []*track {
	return slices.DeleteFunc(slices.Clone(w.live), func(t *track) bool { return !t.ordered })
}

// agree reports whether ways of following have brought the same, up to the newest of the window.
func (w *witness) agree(list []*track) bool {
	for _, t := range list {
		if _, ok := t.byID[w.end]; !ok {
			return false
		}
	}
	return w.whole(list)
}

// whole reports whether nothing is missing between what ways of following have brought.
func (w *witness) whole(list []*track) bool {
	for _, t := range list {
		for _, other := range list {
			if missing(t, other, w.end) != "" {
				return false
			}
		}
	}
	return true
}

// A polledPage is a poll's result as it came.
type polledPage struct {
	events    []json.RawMessage
	Cursor    *string
	truncated bool
	more      bool
}

// poll polls the type that is witnessed.
func (w *witness) poll(ctx context.Context, cursor *string, size int64) (*exchange, polledPage, bool) {
	params := map[string]any{"cursor": cursor}
	if size > 0 {
		params["maxEvents"] = size
	}
	x, err := w.r.quiet(ctx, wire.MethodPoll, w.s.params(params))
	if err != nil && ctx.Err() == nil && w.unanswered == nil {
		w.unanswered = x
	}
	if err != nil || x.answer.err != nil {
		return x, polledPage{}, false
	}
	var in struct {
		Events    []json.RawMessage `json:"events"`
		Cursor    *string           `json:"cursor"`
		Truncated bool              `json:"truncated"`
		HasMore   bool              `json:"hasMore"`
	}
	ok := json.Unmarshal(x.answer.result, &in) == nil
	return x, polledPage{in.Events, in.Cursor, in.Truncated, in.HasMore}, ok
}

// longestOf is the order of the way of following, with an order, that brought most.
func longestOf(list []*track) (order []string) {
	for _, t := range list {
		if t.ordered && len(t.order) > len(order) {
			order = t.order
		}
	}
	return order
}

// canonical is a form of JSON by which equal values are equal.
func canonical(raw json.RawMessage) string {
	v := jsontext.Value(raw).Clone()
	if v.Canonicalize() != nil {
		return string(raw)
	}
	return string(v)
}

// time is when the occurrence says that it happened.
func (o occurrence) time() (t time.Time) {
	_ = json.Unmarshal(member(o.raw, "timestamp"), &t)
	return t
}

// content is what an occurrence says, without its id and cursor.
func (o occurrence) content() string {
	return string(member(o.raw, "name")) + " " + o.time().UTC().Format(time.RFC3339Nano) + " " + canonical(member(o.raw, "data"))
}
