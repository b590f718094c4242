package conform

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A retrial is a callback that refuses deliveries in turn, to see what the server does about each. What has been seen is
// there once done is closed; the callback goes on receiving until the end of the run.
type retrial struct {
	done     chan struct{}
	why      string // why nothing, or not all, was seen
	callback *callback
	made     *exchange
	// plain were answered 503 once; waited is when one was refused and nothing else was done, forgotten one after which
	// the subscription was refreshed.
	plain                      []string
	waited, refreshed, forever string
	refresh                    *exchange
	// led are the eventIds that the refresh's cursor led to, nil where it was not tried, and passed those that the
	// cursor of a later delivery led to while waited was refused.
	led, passed []string
	passing     *exchange
	// gone and large were answered 410 and 413.
	gone, large string
	after       time.Time // when both had been
	// over tells that nothing came any more after a 410, while something occurred.
	over bool
	// hung tells that a callback of another subscription hung while got came here and occurred is what happened meanwhile.
	hung          bool
	got, occurred int
}

// refusedInARow is how many deliveries are refused one after the other.
const refusedInARow = 3

// beginRetrial begins to refuse deliveries of a callback of its own.
func (r *run) beginRetrial(ctx context.Context, work *sync.WaitGroup) {
	t := &retrial{done: make(chan struct{}), callback: r.callback(echoes)}
	r.retrial = t
	s := r.hook
	work.Go(func() {
		defer close(t.done)
		t.try(ctx, r, s)
	})
}

func (t *retrial) try(ctx context.Context, r *run, s *subject) {
	c := t.callback
	x, err := r.subscribeQuietly(ctx, s, c, nil)
	if t.made = x; err != nil || x.answer.err != nil {
		t.why = "a subscription of its own was not made"
		return
	}
	// refuse answers the next new occurrence with the status, and returns its eventId.
	refuse := func(status int) string {
		found := make(chan string, 1)
		done := false
		c.deciding(func(id string, attempt int) (int, <-chan struct{}) {
			if attempt == 1 && !done {
				done = true
				found <- id
				return status, nil
			}
			return 0, nil
		})
		select {
		case id := <-found:
			return id
		case <-time.After(r.o.Wait):
		case <-ctx.Done():
		}
		c.deciding(nil)
		return ""
	}
	again := func(id string, most time.Duration) bool {
		_, ok := c.await(ctx, 0, most, func(p post) bool {
			return isOccurrence(p) && !p.refused && (occurrence{raw: p.body}).eventID() == id
		})
		return ok
	}
	// The first to be refused is looked at again at the end of the run.
	began := time.Now()
	for range refusedInARow {
		id, at := refuse(503), time.Now()
		if id == "" {
			t.why = "nothing was delivered in time"
			return
		}
		if t.plain = append(t.plain, id); t.passed == nil {
			// While it is refused, the cursors of later deliveries do not pass it.
			t.waited, began = id, at
			t.look(ctx, r, s)
		}
	}
	if !again(t.waited, r.o.Wait) {
		t.why = "what was refused did not come again in time"
	}
	took := time.Since(began)

	if t.refreshed = refuse(503); t.refreshed == "" {
		return
	}
	x, err = r.subscribeQuietly(ctx, s, c, nil)
	if err != nil || x.answer.err != nil {
		return
	}
	t.refresh = x
	if at := resultCursor(x); at != nil && !again(t.refreshed, 0) {
		t.led = r.behind(ctx, s, *at)
	}
	if t.why == "" && !again(t.refreshed, max(4*took, 4*r.o.pace.quiet)) {
		t.forever = t.refreshed
	}
	if t.gone = refuse(410); t.gone == "" {
		return
	}
	before := r.happened(s)
	if t.large = refuse(413); t.large == "" {
		t.over = r.happened(s) >= before+2
		return
	}
	t.after = time.Now()
	t.hang(ctx, r, s)
}

// look uses the cursor of a delivery that comes while another one is refused.
func (t *retrial) look(ctx context.Context, r *run, s *subject) {
	posts := t.callback.received()
	from := slices.IndexFunc(posts, func(p post) bool { return (occurrence{raw: p.body}).eventID() == t.waited })
	p, ok := t.callback.await(ctx, from+1, r.o.pace.quiet, func(p post) bool {
		return isOccurrence(p) && !slices.Contains(t.plain, (occurrence{raw: p.body}).eventID())
	})
	if at := (occurrence{raw: p.body}).cursor(); ok && at != nil && len(t.callback.attempts(t.waited)) == 1 {
		t.passing, t.passed = p.exchange(t.made), r.behind(ctx, s, *at)
	}
}

// hang has another callback hang in a delivery, and looks whether this one goes on.
func (t *retrial) hang(ctx context.Context, r *run, s *subject) {
	other := r.callback(echoes)
	if x, err := r.subscribeQuietly(ctx, s, other, nil); err != nil || x.answer.err != nil {
		return
	}
	release, began := make(chan struct{}), make(chan struct{}, 1)
	defer close(release)
	other.deciding(func(string, int) (int, <-chan struct{}) {
		select {
		case began <- struct{}{}:
		default:
		}
		return 0, release
	})
	select {
	case <-began:
	case <-time.After(r.o.Wait):
		return
	case <-ctx.Done():
		return
	}
	pause(ctx, r.o.pace.settle) // what was under way
	from, happened := len(t.callback.received()), r.happened(s)
	// Until some more has happened, and a while longer, within what a server waits for an answer.
	for end := time.Now().Add(r.o.pace.hang); time.Now().Before(end) && ctx.Err() == nil && r.happened(s) < happened+2; {
		pause(ctx, r.o.pace.poll)
	}
	pause(ctx, r.o.pace.settle)
	t.hung = true
	t.occurred = r.happened(s) - happened
	t.got = len(t.callback.received()) - from
}

// happened counts what the watched stream and the receiver's other callbacks have seen of a type.
func (r *run) happened(s *subject) int {
	if s.stream == nil {
		return 0
	}
	return len(s.pushed())
}

// behind are the eventIds of a poll from a cursor; nil when it was not answered, or truncated.
func (r *run) behind(ctx context.Context, s *subject, cursor string) []string {
	if !s.has(wire.ModePoll) {
		return nil
	}
	w := &witness{r: r, s: s}
	ids := []string{}
	for range 20 {
		_, page, ok := w.poll(ctx, &cursor, 100)
		if !ok || page.truncated {
			return nil
		}
		for _, raw := range page.events {
			ids = append(ids, (occurrence{raw: raw}).eventID())
		}
		if page.Cursor == nil || !page.more {
			break
		}
		cursor = *page.Cursor
	}
	return ids
}
