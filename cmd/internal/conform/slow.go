package conform

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A slowPace holds the timeouts and delays of slow checks.
type slowPace struct {
	// run is the timeout of all slow checks together. watch is how long they follow retries, streams and signatures.
	run, watch time.Duration
	// maxAttempts is the maximum number of attempts within that time.
	maxAttempts int
	// grant is the longest grant to wait for. maxLate is how long deliveries may continue after the grant expires.
	grant, maxLate time.Duration
	// hold is the timeout that a long poll requests.
	hold time.Duration
	// restartTime is how long a server may take to respond after a restart. resumeTime is how long it may take to
	// resume deliveries.
	restartTime, resumeTime time.Duration
}

var realSlow = slowPace{run: 17 * time.Minute, watch: 16 * time.Minute, maxAttempts: 100, grant: 3 * time.Minute, maxLate: time.Minute, hold: 2 * time.Minute,
	restartTime: 2 * time.Minute, resumeTime: time.Minute}

// slowChecks need a long time. They run concurrently, after all other checks, each with separate callbacks and streams.
var slowChecks = []check{
	{name: "grant-end", id: "SUB-6", title: "Deliveries end with the grant, neither earlier nor much later", needs: needSlow | needHook | needOccurred, run: checkGrantEnds},
	{name: "refresh-extends", id: "SUB-5", title: "A refreshed subscription outlives its first grant", needs: needSlow | needHook | needOccurred, run: checkOutlives},
	{name: "rotation-end", id: "SUB-5", title: "The old secret stops signing some time after a rotation", needs: needSlow | needHook | needOccurred, run: checkGraceEnds},
	{name: "retry-arrives", id: "HOOK-3", title: "A delivery that was refused once arrives", needs: needSlow | needHook | needOccurred, run: checkComesInTheEnd},
	{name: "retry-backoff", id: "HOOK-3", title: "Attempts at a delivery that is always refused end or become rare", needs: needSlow | needHook | needOccurred, run: checkAttemptsEnd},
	{name: "heartbeat-interval", id: "PUSH-4", title: "A stream continues with heartbeats at their interval, or ends with its result", needs: needSlow | needPush, run: checkSteady},
	{name: "held-long", id: "POLL-9", title: "The server responds in time to a poll with a long timeout", needs: needSlow | needPoll | needReplay, run: checkLongHold},
	{name: "poll-cursor-old", id: "CUR-7", title: "A poll with an old cursor returns every later event, or sets truncated", needs: needSlow | needPoll | needReplay | needOccurred, run: checkOldCursor},
}

// runSlow executes slow checks concurrently and returns their findings in order.
func (r *run) runSlow(ctx context.Context, all []check, lacks []error) []verdict.Finding {
	ctx, cancel := context.WithTimeout(ctx, r.o.pace.slow.run)
	defer cancel()
	findings := make([]verdict.Finding, len(all))
	var trying sync.WaitGroup
	for i, c := range all {
		trying.Go(func() {
			err := lacks[i]
			if err == nil {
				if err = c.run(ctx, r); ctx.Err() != nil {
					err = verdict.ErrRunEnded
				}
			}
			findings[i] = r.Finding(c.describe(), err)
		})
	}
	trying.Wait()
	return findings
}

// grantEnd returns the expiry time of a grant by this machine's clock. It uses the Date header to convert the server's
// time.
func (x *exchange) grantEnd() (time.Time, bool) {
	before, ok := refreshBefore(x)
	if !x.date.IsZero() {
		// Date has whole seconds; clocks that differ by less are treated as equal.
		if ahead := time.Since(x.date); ahead > 2*time.Second || ahead < -2*time.Second {
			before = before.Add(ahead)
		}
	}
	return before, ok
}

// subscribeShortest subscribes with the shortest possible grant.
func (r *run) subscribeShortest(ctx context.Context, c *callback) (x *exchange, ends time.Time, err error) {
	x, err = r.mustSubscribe(ctx, r.hook, c, map[string]any{"ttlMs": 1})
	if err != nil {
		return x, ends, err
	}
	ends, ok := x.grantEnd()
	if left := time.Until(ends); !ok || left > r.o.pace.slow.grant {
		return x, ends, skipf("the shortest grant is %v, too long to wait for", left.Round(time.Second))
	}
	return x, ends, nil
}

// countPosts returns the number of occurrences posted between two times.
func (c *callback) countPosts(from, to time.Time) (n int) {
	for _, p := range c.receivedPosts() {
		if isOccurrence(p) && p.at.After(from) && p.at.Before(to) {
			n++
		}
	}
	return n
}

// checkGrantEnds compares a callback with another callback that has the default grant.
func checkGrantEnds(ctx context.Context, r *run) error {
	beside := r.newCallback(echoes)
	if _, err := r.mustSubscribe(ctx, r.hook, beside, nil); err != nil {
		return err
	}
	c := r.newCallback(echoes)
	x, ends, err := r.subscribeShortest(ctx, c)
	if err != nil {
		return err
	}
	began := time.Now()
	slow := r.o.pace.slow
	pause(ctx, time.Until(ends.Add(slow.maxLate)))
	late := time.Now()
	pause(ctx, slow.maxLate)
	if ctx.Err() != nil {
		return verdict.ErrRunEnded
	}
	if n := c.countPosts(late, time.Now()); n > 0 {
		return x.violation("no delivery "+slow.maxLate.String()+" after refreshBefore", "%d", n)
	}
	// Count the occurrences that only the other callback received in the second half of the grant.
	half := began.Add(ends.Sub(began) / 2)
	if there := beside.countPosts(half, ends.Add(-ends.Sub(began)/8)); there > 1 && c.countPosts(half, ends) == 0 {
		return x.violation("deliveries until refreshBefore", "none in the second half of the grant, in which another callback got %d", there)
	}
	if beside.countPosts(late, time.Now()) == 0 {
		return skipf("nothing occurred after the grant")
	}
	return nil
}

func checkOutlives(ctx context.Context, r *run) error {
	beside, c := r.newCallback(echoes), r.newCallback(echoes)
	if _, err := r.mustSubscribe(ctx, r.hook, beside, nil); err != nil {
		return err
	}
	x, ends, err := r.subscribeShortest(ctx, c)
	if err != nil {
		return err
	}
	first := ends
	for time.Now().Before(first.Add(r.o.pace.slow.maxLate)) {
		pause(ctx, time.Until(ends)*2/3)
		if ctx.Err() != nil {
			return verdict.ErrRunEnded
		}
		if x, ends, err = r.subscribeShortest(ctx, c); err != nil {
			return err
		}
	}
	from := first.Add(r.o.pace.slow.maxLate / 2)
	if there := beside.countPosts(from, time.Now()); there == 0 {
		return skipf("nothing occurred after the first grant")
	} else if there > 1 && c.countPosts(from, time.Now()) == 0 {
		return x.violation("deliveries after the first grant, since it was refreshed", "none, while another callback got %d", there)
	}
	return nil
}

func checkGraceEnds(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	if _, err := r.mustSubscribe(ctx, r.hook, c, nil); err != nil {
		return err
	}
	r.rotate(c)
	x, err := r.mustSubscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	if !r.keepRefreshing(ctx, c) {
		return verdict.ErrRunEnded
	}
	p, ok := c.await(ctx, len(c.receivedPosts()), r.o.Wait, isOccurrence)
	if !ok {
		return skipf("nothing was delivered in the end")
	}
	if p.verify(c.secrets[0]) == nil {
		return p.exchange(x).violation("signatures of the new secret alone", "one of the secret before, %v after the rotation", r.o.pace.slow.watch)
	}
	return nil
}

// keepRefreshing refreshes a callback until the watch ends, regardless of the length of its grants.
func (r *run) keepRefreshing(ctx context.Context, c *callback) bool {
	end := time.Now().Add(r.o.pace.slow.watch)
	for time.Now().Before(end) && ctx.Err() == nil {
		x, err := r.mustSubscribe(ctx, r.hook, c, nil)
		next := end
		if ends, ok := x.grantEnd(); err == nil && ok {
			next = time.Now().Add(time.Until(ends) * 2 / 3)
		}
		if next.After(end) {
			next = end
		}
		pause(ctx, max(time.Until(next), time.Second/10))
	}
	return ctx.Err() == nil
}

// refuseFirst makes a callback reject the attempts to deliver the first occurrence for which says returns true. It
// returns the eventId once that occurrence arrives.
func (r *run) refuseFirst(ctx context.Context, c *callback, says func(attempt int) bool) (string, *exchange, error) {
	found := make(chan string, 1)
	first := ""
	c.setDecide(func(id string, attempt int) (int, <-chan struct{}) {
		if first == "" {
			first = id
			found <- id
		}
		if id == first && says(attempt) {
			return 503, nil
		}
		return 0, nil
	})
	x, err := r.mustSubscribe(ctx, r.hook, c, nil)
	if err != nil {
		return "", x, err
	}
	select {
	case id := <-found:
		return id, x, nil
	case <-time.After(r.o.Wait):
	case <-ctx.Done():
	}
	return "", x, skipf("nothing was delivered in time")
}

func checkComesInTheEnd(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	id, x, err := r.refuseFirst(ctx, c, func(attempt int) bool { return attempt == 1 })
	if err != nil {
		return err
	}
	if _, ok := c.await(ctx, 0, r.o.pace.slow.watch, func(p post) bool {
		return isOccurrence(p) && !p.refused && (occurrence{raw: p.body}).eventID() == id
	}); !ok && ctx.Err() == nil {
		return x.violation(wire.Shown(id)+" again, after it was answered 503", "not within %v", r.o.pace.slow.watch)
	}
	return nil
}

func checkAttemptsEnd(ctx context.Context, r *run) error {
	c := r.newCallback(echoes)
	id, x, err := r.refuseFirst(ctx, c, func(int) bool { return true })
	if err != nil {
		return err
	}
	if !r.keepRefreshing(ctx, c) {
		return verdict.ErrRunEnded
	}
	list := c.postsOf(id)
	if len(list) > r.o.pace.slow.maxAttempts {
		return list[len(list)-1].exchange(x).violation("fewer attempts, at longer and longer pauses", "%d within %v", len(list), r.o.pace.slow.watch)
	}
	if n := len(list); n > 4 {
		var pauses []time.Duration
		for i, p := range list[1:] {
			pauses = append(pauses, p.at.Sub(list[i].at))
		}
		// Compare thirds, because a single attempt may have been late.
		third := len(pauses) / 3
		first, last := median(pauses[:third]), median(pauses[len(pauses)-third:])
		if time.Since(list[n-1].at) < 2*slices.Max(pauses) && last < 2*first {
			return list[n-1].exchange(x).violation("the attempts to end, or longer and longer pauses between them",
				"%d, with pauses of %v in the end and of %v at first", n, last.Round(time.Second/10), first.Round(time.Second/10))
		}
	}
	return nil
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// checkSteady follows a stream until the watch ends. It fails if the stream is silent for longer than a client would wait,
// or ends without its result. It advises against uneven heartbeats.
func checkSteady(ctx context.Context, r *run) error {
	f, x, ok := r.streamQuietly(ctx, r.push.params(map[string]any{"cursor": nil}))
	if !ok {
		return skipf("a stream was not opened")
	}
	defer f.stop()
	watching, cancel := context.WithTimeout(ctx, r.o.pace.slow.watch)
	defer cancel()
	var beats []time.Time
	f.await(watching, func(m message) bool {
		if m.method == wire.NotificationHeartbeat {
			beats = append(beats, time.Now())
		}
		return m.isResponse()
	})
	end := time.Now()
	kept, ended, broken := f.messages()
	switch {
	case ctx.Err() != nil:
		return verdict.ErrRunEnded
	case ended && slices.ContainsFunc(kept, message.isResponse):
		return nil
	case ended:
		return x.violation("the stream to live for "+r.o.pace.slow.watch.String()+", or to end with its result", "its end without one: %v", broken)
	}
	if f.isOver() {
		return skipf("more came than is kept")
	}
	if len(beats) < 3 {
		return x.violation("heartbeats", "%d within %v", len(beats), r.o.pace.slow.watch)
	}
	var gaps []time.Duration
	for i, at := range beats[1:] {
		gaps = append(gaps, at.Sub(beats[i]))
	}
	gaps = append(gaps, end.Sub(beats[len(beats)-1]))
	longest := slices.Max(gaps)
	if longest > r.o.pace.heartbeat {
		return x.violation("a heartbeat at least every 30 s", "none for %v", longest.Round(time.Second/10))
	}
	// If this machine is busy for a second or two, that is not the server's fault.
	if usual := median(gaps); longest > max(3*usual, 2*time.Second)+r.o.pace.settle {
		return x.violation("heartbeats at a steady interval", "mostly after %v, and once after %v", usual.Round(time.Second/100), longest.Round(time.Second/100)).AsAdvice()
	}
	return nil
}

// checkLongHold requests a long hold at a cursor without later events.
func checkLongHold(ctx context.Context, r *run) error {
	hold := r.o.pace.slow.hold
	end := time.Now().Add(hold)
	var cursor *string
	for first := true; time.Now().Before(end); first = false {
		left := max(time.Until(end), time.Second)
		params := map[string]any{"cursor": cursor}
		if !first {
			params["timeoutMs"] = left.Milliseconds()
		}
		x, err := r.send(ctx, request{method: wire.MethodPoll, params: r.poll.params(params), within: left + r.o.pace.slow.maxLate/4})
		if err != nil && err != errLimited && ctx.Err() == nil {
			return x.violation("an answer by timeoutMs", "%v", err)
		}
		if err == nil {
			err = x.refused("a result")
		}
		if err != nil {
			return err
		}
		cursor = resultCursor(x)
		pause(ctx, r.o.pace.poll)
	}
	return nil
}

// checkOldCursor repeats the first poll of the run after a long time.
func checkOldCursor(ctx context.Context, r *run) error {
	pause(ctx, r.o.pace.slow.watch)
	return lateAgain("poll-repeat", checkAgain)(ctx, r)
}
