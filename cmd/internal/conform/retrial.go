package conform

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A retrial is a callback that rejects deliveries in several ways and records how the server reacts. The results are
// final once done is closed. The callback continues to receive deliveries until the run ends.
type retrial struct {
	done     chan struct{}
	failure  string // why the results are missing or incomplete
	callback *callback
	statuses *statusTrial
	made     *exchange
	// refused503 holds the eventIds of deliveries that were rejected with 503 in sequence. waited is the eventId of the
	// delivery whose cursor was examined. refreshed is an eventId that was rejected with 503 before the subscription
	// was refreshed. If the server never retried it, neverRetried is the same eventId.
	refused503 []string
	// counts holds the number of occurrences at each of these rejections.
	counts                          []int
	waited, refreshed, neverRetried string
	refresh                         *exchange
	// afterRefresh holds the eventIds after the cursor of the refresh, or nil if that was not tried. afterLater holds
	// the eventIds after the cursor of a delivery that arrived while waited was being rejected.
	afterRefresh, afterLater []string
	passing                  *exchange
	// refused410 and refused413 are the eventIds that were rejected with 410 and 413.
	refused410, refused413 string
	rejectedAt             time.Time // when both had been
	// stoppedAfter410 reports whether deliveries stopped after a 410 response although events occurred.
	stoppedAfter410 bool
	// withheld reports whether the callback of another subscription withheld its response. During that time,
	// occurredCount events occurred and this callback received receivedCount deliveries.
	withheld                     bool
	receivedCount, occurredCount int
}

// These are classes of statuses by which a callback refuses an event, so that the server must retry it.
var (
	redirectStatuses = []int{301, 302, 303, 307, 308}
	refusalStatuses  = []int{400, 401, 403, 404, 405, 409, 422, 425, 429, 500, 501, 502, 503, 504}
)

// A statusTrial is a callback that refuses the first attempt of each event with another status. A redirect leads to next.
type statusTrial struct {
	*callback
	next *callback
	made *exchange
	// left holds the statuses to use, and refused the eventIds and statuses of refused events. The callback's mu guards
	// both.
	left    []int
	refused map[string]int
	// delayed is the eventId of the event that was refused with Retry-After, which refused does not hold.
	// asksByDate reports whether Retry-After was a date.
	delayed    string
	asksByDate bool
}

// retryAfter is the delay that a callback asks for. An attempt after less than leastDelay ignores that.
const (
	retryAfter = 6 * time.Second
	leastDelay = retryAfter / 2
)

// newStatusTrial subscribes the callback of a statusTrial.
func (r *run) newStatusTrial(ctx context.Context, s *subject) *statusTrial {
	d := r.draw.For("retry-statuses")
	t := &statusTrial{callback: r.newCallback(echoes), next: r.newCallback(echoes), refused: map[string]int{}}
	t.left = slices.Concat(draw.Some(d, 1, redirectStatuses), draw.Some(d, len(refusalStatuses), refusalStatuses))
	t.redirectURL = t.next.url
	t.setDecide(func(id string, attempt int) (int, <-chan struct{}) {
		t.retryAfter = ""
		switch {
		case attempt > 1 || len(t.left) == 0:
			return 0, nil
		case t.delayed == "":
			t.delayed = id
			t.retryAfter = strconv.Itoa(int(retryAfter.Seconds()))
			if t.asksByDate = d.IntN(2) == 0; t.asksByDate {
				t.retryAfter = time.Now().Add(retryAfter).UTC().Format(http.TimeFormat)
			}
			return draw.Pick(d, []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}), nil
		}
		status := t.left[0]
		t.left, t.refused[id] = t.left[1:], status
		return status, nil
	})
	t.made, _ = r.subscribe(ctx, s, t.callback, nil)
	return t
}

// delayedPosts returns the attempts of the event that was refused with Retry-After, and whether that was a date.
func (t *statusTrial) delayedPosts() (list []post, byDate bool) {
	t.mu.Lock()
	id, byDate := t.delayed, t.asksByDate
	t.mu.Unlock()
	return t.postsOf(id), byDate
}

// refusals returns the statuses of the events that were refused without Retry-After, by eventId.
func (t *statusTrial) refusals() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.refused)
}

// pauses returns the time between the first two attempts at each event, and the events with a single attempt.
func (c *callback) pauses(ids []string) (list []time.Duration, single []string) {
	for _, id := range ids {
		if posts := c.postsOf(id); len(posts) > 1 {
			list = append(list, posts[1].at.Sub(posts[0].at))
		} else {
			single = append(single, id)
		}
	}
	return list, single
}

// retryTime returns how long to wait for a further attempt, which is longer than the retries so far took.
func (t *retrial) retryTime(r *run) time.Duration {
	wait := max(r.o.pace.quiet, nextTick)
	pauses, _ := t.callback.pauses(t.refused503)
	for _, pause := range pauses {
		wait = max(wait, min(2*pause, r.o.Wait))
	}
	return wait
}

// rejectionCount is the number of deliveries to reject in sequence.
const rejectionCount = 4

// beginRetrial starts to reject the deliveries of a new callback.
func (r *run) beginRetrial(ctx context.Context, work *sync.WaitGroup) {
	t := &retrial{done: make(chan struct{}), callback: r.newCallback(echoes)}
	r.retrial = t
	s := r.hook
	work.Go(func() {
		defer close(t.done)
		t.run(ctx, r, s)
	})
}

func (t *retrial) run(ctx context.Context, r *run, s *subject) {
	c := t.callback
	t.statuses = r.newStatusTrial(ctx, s)
	x, err := r.subscribe(ctx, s, c, nil)
	if t.made = x; err != nil || x.answer.err != nil {
		t.failure = "the server did not grant a subscription for it"
		return
	}
	// refuse rejects the next new occurrence with the status and returns its eventId.
	refuse := func(status int) string {
		found := make(chan string, 1)
		done := false
		c.setDecide(func(id string, attempt int) (int, <-chan struct{}) {
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
		c.setDecide(nil)
		return ""
	}
	again := func(id string, most time.Duration) bool {
		_, ok := c.await(ctx, 0, most, func(p post) bool {
			return isOccurrence(p) && !p.refused && (occurrence{raw: p.body}).eventID() == id
		})
		return ok
	}
	// The first rejected delivery is examined again at the end of the run.
	began := time.Now()
	for range rejectionCount {
		id, at := refuse(503), time.Now()
		if id == "" {
			t.failure = "nothing was delivered in time"
			return
		}
		t.counts = append(t.counts, r.countOccurrences(s))
		if t.refused503 = append(t.refused503, id); len(t.refused503) == 1 {
			// While this delivery is refused, the cursors of later deliveries must not pass it.
			t.waited, began = id, at
			t.pollWhileRefusing(ctx, r, s)
		}
	}
	if !again(t.waited, r.o.Wait) {
		t.failure = "a refused delivery was not repeated in time"
	}
	took := time.Since(began)

	if t.refreshed = refuse(503); t.refreshed == "" {
		return
	}
	x, err = r.subscribe(ctx, s, c, nil)
	if err != nil || x.answer.err != nil {
		return
	}
	t.refresh = x
	if at := resultCursor(x); at != nil && !again(t.refreshed, 0) {
		t.afterRefresh = r.idsAfter(ctx, s, *at)
	}
	if t.failure == "" && !again(t.refreshed, max(4*took, 4*r.o.pace.quiet)) {
		t.neverRetried = t.refreshed
	}
	if t.refused410 = refuse(410); t.refused410 == "" {
		return
	}
	before := r.countOccurrences(s)
	if t.refused413 = refuse(413); t.refused413 == "" {
		t.stoppedAfter410 = r.countOccurrences(s) >= before+2
		return
	}
	t.rejectedAt = time.Now()
	t.withholdResponse(ctx, r, s)
}

// pollWhileRefusing polls from the cursor of a delivery that arrives while another one is being rejected.
func (t *retrial) pollWhileRefusing(ctx context.Context, r *run, s *subject) {
	posts := t.callback.receivedPosts()
	from := slices.IndexFunc(posts, func(p post) bool { return (occurrence{raw: p.body}).eventID() == t.waited })
	p, ok := t.callback.await(ctx, from+1, r.o.pace.quiet, func(p post) bool {
		return isOccurrence(p) && !slices.Contains(t.refused503, (occurrence{raw: p.body}).eventID())
	})
	if at := (occurrence{raw: p.body}).cursor(); ok && at != nil && len(t.callback.postsOf(t.waited)) == 1 {
		t.passing, t.afterLater = p.exchange(t.made), r.idsAfter(ctx, s, *at)
	}
}

// withholdResponse makes another callback withhold its response to a delivery, and records whether deliveries to this
// one continue.
func (t *retrial) withholdResponse(ctx context.Context, r *run, s *subject) {
	other := r.newCallback(echoes)
	if x, err := r.subscribe(ctx, s, other, nil); err != nil || x.answer.err != nil {
		return
	}
	release, began := make(chan struct{}), make(chan struct{}, 1)
	defer close(release)
	other.setDecide(func(string, int) (int, <-chan struct{}) {
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
	pause(ctx, r.o.pace.settle) // deliveries in flight
	from, happened := len(t.callback.receivedPosts()), r.countOccurrences(s)
	// Wait until more events have occurred and a while longer, but not beyond a typical delivery timeout.
	for end := time.Now().Add(r.o.pace.hang); time.Now().Before(end) && ctx.Err() == nil && r.countOccurrences(s) < happened+2; {
		pause(ctx, r.o.pace.poll)
	}
	pause(ctx, r.o.pace.settle)
	t.withheld = true
	t.occurredCount = r.countOccurrences(s) - happened
	t.receivedCount = len(t.callback.receivedPosts()) - from
}

// countOccurrences counts the occurrences of a type that its watched stream received or, without one, that the callback
// of the main subscription received.
func (r *run) countOccurrences(s *subject) int {
	if s.stream == nil {
		return r.mainSubscription.callback.countPosts(time.Time{}, time.Now())
	}
	return len(s.streamOccurrences())
}

// idsAfter returns the eventIds that polls from a cursor return, or nil if a poll failed or was truncated.
func (r *run) idsAfter(ctx context.Context, s *subject, cursor string) []string {
	if !s.has(wire.ModePoll) {
		return nil
	}
	ids := []string{}
	for range 20 {
		_, page, err := r.pollQuietly(ctx, s, map[string]any{"cursor": cursor, "maxEvents": 100})
		if err != nil || page.Truncated {
			return nil
		}
		for _, raw := range page.Events {
			ids = append(ids, (occurrence{raw: raw}).eventID())
		}
		if page.Cursor == nil || !page.HasMore {
			break
		}
		cursor = *page.Cursor
	}
	return ids
}
