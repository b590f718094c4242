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

// A place is a cursor that was given, and how much had been brought when it was.
type place struct {
	what   string
	id     string // the requirement that it breaks when it is wrong
	cursor string
	from   *exchange
	// at is how many occurrences of the track had come before.
	track *track
	at    int
	// lagging tells that the cursor may be before that.
	lagging bool
	// tried is set where the cursor was used; got are the eventIds that it led to.
	tried *exchange
	got   []string
	// astray is the answer to it, where it was truncated and an older one is not.
	astray *exchange
}

// must are the eventIds of the window that came after the cursor.
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
			w.why = "a poll of the window was not answered, or was truncated"
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
	for i, f := range streams {
		if i == 0 {
			w.replay(ctx, f.active)
		}
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

// drain polls from the cursor on until there is no more, or enough has come.
func (w *witness) drain(ctx context.Context, cursor string, size int64, t *track) (from *exchange) {
	newest, most, empty := w.end, 2*len(longestOf(w.live)), 0
	for range maxWitnessed {
		x, result, ok := w.poll(ctx, &cursor, size)
		if from == nil {
			from = x
		}
		if !ok || result.truncated {
			return nil
		}
		for _, raw := range result.events {
			t.add(occurrence{raw, x})
		}
		if _, all := t.byID[newest]; all || len(t.order) > most || result.Cursor == nil || !result.more && len(result.events) == 0 || !result.more && size != 1 && size != 2 {
			return from
		}
		// A server may say for ever that there is more.
		if empty++; len(result.events) > 0 || *result.Cursor != cursor {
			empty = 0
		}
		if cursor = *result.Cursor; empty >= emptyPages {
			return from
		}
	}
	return from
}

// page reads the window again, by pages of a size.
func (w *witness) page(ctx context.Context, begin *string, size int64) {
	t := newTrack("pages of "+string(encode(size)), wire.ModePoll)
	if t.from = w.drain(ctx, *begin, size, t); t.from != nil {
		w.again = append(w.again, t)
	}
}

// replay reads the window again, by a stream from where another one began.
func (w *witness) replay(ctx context.Context, active *exchange) {
	at := (occurrence{raw: active.answer.params}).cursor()
	if at == nil {
		return
	}
	if t := w.streamed(ctx, *at, "a stream that is opened later"); t != nil {
		w.again = append(w.again, t)
	}
}

// streamed reads from a cursor by a stream until all of the window has come.
func (w *witness) streamed(ctx context.Context, cursor, name string) *track {
	f, x, ok := w.r.quietly(ctx, w.s.params(map[string]any{"cursor": cursor}))
	if !ok {
		return nil
	}
	defer f.stop()
	if truncated, _ := boolean(x, x.answer.params, "truncated"); truncated {
		return nil
	}
	t := newTrack(name, wire.ModePush)
	t.from = x
	waiting, cancel := context.WithTimeout(ctx, w.r.o.pace.arrive)
	defer cancel()
	last := w.end
	f.await(waiting, func(m message) bool {
		if m.method != wire.NotificationEvent {
			return false
		}
		t.add(occurrence{m.params, &exchange{request: x.request, answer: m}})
		_, done := t.byID[last]
		return done
	})
	for _, m := range mustMessages(f) {
		if m.method == wire.NotificationEvent {
			t.add(occurrence{m.params, &exchange{request: x.request, answer: m}})
		}
	}
	if name != "" {
		// Where replayed events say that the stream is.
		for i, id := range t.order {
			if c := t.byID[id].cursor(); c != nil {
				w.places = append(w.places, &place{what: "the cursor of a replayed event", id: "PUSH-3", cursor: *c, from: t.byID[id].from, track: t, at: i + 1})
			}
		}
	}
	return t
}

// placesOf are the cursors of a stream.
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

// placesOfCallback are the cursors of a callback that refuses nothing.
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

// resultCursor is the cursor of a result.
func resultCursor(x *exchange) *string {
	var c *string
	_ = json.Unmarshal(member(x.answer.result, "cursor"), &c)
	return c
}

// triedOfEach is how many cursors of each kind are tried.
const triedOfEach = 4

// tryCursors uses cursors of each kind once, those that have something of the window behind them.
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
			// From the first on, at equal distances.
			if len(list) > triedOfEach && i%((len(list)+triedOfEach-1)/triedOfEach) != 0 {
				continue
			}
			p := list[i]
			if byPoll {
				t := newTrack("", wire.ModePoll)
				p.tried = w.drain(ctx, p.cursor, 100, t)
				if p.got = t.order; p.tried == nil {
					p.astray = w.astray(ctx, p.cursor)
				}
			} else if t := w.streamed(ctx, p.cursor, ""); t != nil {
				p.tried, p.got = t.from, t.order
			}
		}
	}
}

// astray is the answer to a cursor that is truncated, although one from before is not: retention has nothing to do with it.
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
