package conform

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// retryChecks examine how the server retried the deliveries that the retrial rejected.
var retryChecks = []check{
	{name: "retry-others-continue", id: "HOOK-3", title: "A refused event does not delay later events", needs: needHook | needRetrial, run: retried(checkNotHeld)},
	{name: "retry-pause", id: "HOOK-3", title: "The server waits before it retries a delivery", needs: needHook | needRetrial, run: retried(checkPauses)},
	{name: "retry-same", id: "HOOK-1", title: "A retried delivery is the same occurrence with the same webhook-id", needs: needHook | needRetrial, run: retried(checkSameBody)},
	{name: "retry-timestamp", id: "HOOK-3", title: "Each attempt has its own timestamp", needs: needHook | needRetrial, run: retried(checkTimes)},
	{name: "retry-cursor", id: "HOOK-6", title: "The cursor of a delivery is not after a refused event", needs: needHook | needRetrial, run: retried(checkPassed)},
	{name: "refresh-cursor-refused", id: "SUB-7", title: "The cursor of a refresh is not after a refused delivery", needs: needHook | needRetrial, run: retried(checkRefreshCursor)},
	{name: "refresh-keeps-retries", id: "SUB-5", title: "A refresh keeps pending retries", needs: needHook | needRetrial, run: retried(checkForgotten)},
	{name: "refresh-no-repeats", id: "SUB-5", title: "A refresh does not repeat accepted deliveries", needs: needHook | needRetrial, run: checkRefreshRepeats},
	{name: "retry-final", id: "HOOK-3", title: "410 and 413 end the attempts of their event only", needs: needHook | needRetrial, run: retried(checkFinal)},
	{name: "callback-hangs", id: "HOOK-4", title: "A callback that hangs does not delay others", needs: needHook | needRetrial, run: retried(checkHanging)},
	{name: "delivery-redirect", id: "SSRF-2", title: "The server does not follow a redirect of a delivery", needs: needHook | needRetrial, run: retried(checkDeliveryRedirect)},
	{name: "retry-statuses", id: "HOOK-3", title: "The server retries after every status but 2xx, 410 and 413", needs: needHook | needRetrial, run: retried(checkStatuses)},
	{name: "retry-after", id: "HOOK-3", title: "The server retries no sooner than Retry-After of a callback asks", needs: needHook | needRetrial, run: retried(checkRetryAfter)},
	{name: "retry", id: "HOOK-3", title: "The server retries a refused event", needs: needHook | needRetrial, run: retried(checkComesAgain)},
}

// checkStatuses waits for the retries of the events that were refused with different statuses. The longest pause so far
// tells how long the server may wait.
func checkStatuses(ctx context.Context, r *run, t *retrial) error {
	end := time.Now().Add(r.o.Wait)
	for {
		refused := t.statuses.refusals()
		pauses, single := t.statuses.pauses(slices.Sorted(maps.Keys(refused)))
		if len(pauses) == 0 {
			return skipf("no event was delivered again")
		}
		wait := max(4*slices.Max(pauses), r.o.pace.quiet)
		waiting := false
		for _, id := range single {
			p := t.statuses.postsOf(id)[0]
			if age := time.Since(p.at); age > wait {
				return p.exchange(t.statuses.made).violation(fmt.Sprintf("another attempt after the answer %d, as after others within %v", refused[id],
					slices.Max(pauses).Round(time.Millisecond)), "none within %v", age.Round(time.Millisecond))
			}
			waiting = true
		}
		if !waiting || time.Now().After(end) || ctx.Err() != nil {
			return nil
		}
		pause(ctx, r.o.pace.settle)
	}
}

func checkRetryAfter(_ context.Context, _ *run, t *retrial) error {
	list, byDate := t.statuses.delayedPosts()
	if len(list) == 0 {
		return skipf("nothing was delivered that could be refused")
	}
	if len(list) == 1 {
		if waited := time.Since(list[0].at); waited < retryAfter {
			return skipf("the delivery was refused only %v ago", waited.Round(time.Second))
		}
		return nil
	}
	if wait := list[1].at.Sub(list[0].at); wait < leastDelay {
		v := list[1].exchange(t.statuses.made).violation("no attempt within the "+retryAfter.String()+" of Retry-After", "one after %v", wait.Round(time.Millisecond))
		v.Mild = byDate // many servers read only seconds
		return v
	}
	return nil
}

func checkDeliveryRedirect(_ context.Context, _ *run, t *retrial) error {
	if list := t.statuses.next.receivedPosts(); len(list) > 0 {
		return list[0].exchange(t.statuses.made).violation("no request to where the callback redirects", "%s", list[0].summary())
	}
	if len(t.statuses.refusals()) == 0 {
		return skipf("nothing was delivered that could be redirected")
	}
	return nil
}

// retried waits for the retrial.
func retried(try func(context.Context, *run, *retrial) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		select {
		case <-r.retrial.done:
			return try(ctx, r, r.retrial)
		case <-ctx.Done():
			return verdict.ErrRunEnded
		}
	}
}

// postsOf returns the posts of one occurrence.
func (c *callback) postsOf(id string) (list []post) {
	for _, p := range c.receivedPosts() {
		if isOccurrence(p) && (occurrence{raw: p.body}).eventID() == id {
			list = append(list, p)
		}
	}
	return list
}

// checkNotHeld examines the deliveries that were rejected in sequence. Each one is a different occurrence.
func checkNotHeld(_ context.Context, _ *run, t *retrial) error {
	if len(t.refused503) < rejectionCount {
		return verdict.Skipped(t.failure)
	}
	// The callback rejected the second delivery only after it had accepted the first, so no new delivery arrived in
	// between.
	for i, id := range t.refused503[:len(t.refused503)-1] {
		list, next := t.callback.postsOf(id), t.callback.postsOf(t.refused503[i+1])
		if len(list) < 2 || next[0].at.Before(list[len(list)-1].at) {
			return nil
		}
	}
	if n := len(t.counts) - 1; t.counts[n]-t.counts[0] < 2*n-1 {
		return skipf("too little occurred while deliveries waited for their next attempt")
	}
	first, last := t.callback.postsOf(t.refused503[0]), t.callback.postsOf(t.refused503[len(t.refused503)-1])
	return last[0].exchange(t.made).violation("other occurrences while "+wire.Shown(t.refused503[0])+" waits for its next attempt",
		"nothing but attempts of one occurrence at a time for %v", last[0].at.Sub(first[0].at).Round(time.Millisecond))
}

func checkPauses(_ context.Context, r *run, t *retrial) error {
	pauses, _ := t.callback.pauses(t.refused503)
	if len(pauses) < 2 {
		return skipf("fewer than two deliveries were tried again")
	}
	if usual := median(pauses); usual < r.o.pace.retry {
		last := t.callback.postsOf(t.refused503[len(pauses)-1])
		return last[len(last)-1].exchange(t.made).violation("pauses of "+r.o.pace.retry.String()+" and more", "%v", usual.Round(time.Millisecond))
	}
	return nil
}

func checkSameBody(_ context.Context, _ *run, t *retrial) error {
	tried := false
	for _, id := range append(slices.Clone(t.refused503), t.refreshed) {
		list := t.callback.postsOf(id)
		for _, p := range list[min(1, len(list)):] {
			tried = true
			if a, b := bodyOf(list[0]), bodyOf(p); a != b {
				return p.exchange(t.made).violation("the occurrence of the first attempt but for its cursor: "+wire.Shown(a), "%s", wire.Shown(b))
			}
			if a, b := list[0].header.Get(wire.HeaderWebhookID), p.header.Get(wire.HeaderWebhookID); a != b {
				return p.exchange(t.made).violation("the webhook-id of the first attempt, "+wire.Shown(a), "%s", wire.Shown(b))
			}
		}
	}
	if !tried {
		return skipf("no delivery was tried again")
	}
	return nil
}

// checkTimes compares the timestamps of two pairs of attempts separated by more than a second, or of one separated by a
// Retry-After. Either attempt may have been delayed in transit.
func checkTimes(_ context.Context, _ *run, t *retrial) error {
	apart := 0
	var last post
	delayed, _ := t.statuses.delayedPosts()
	attempts := [][]post{delayed}
	for _, id := range append(slices.Clone(t.refused503), t.refreshed) {
		attempts = append(attempts, t.callback.postsOf(id))
	}
	for _, list := range attempts {
		if len(list) < 2 || list[1].at.Sub(list[0].at) < time.Second {
			continue
		}
		if list[0].header.Get(wire.HeaderWebhookTimestamp) != list[1].header.Get(wire.HeaderWebhookTimestamp) {
			return nil
		}
		if apart, last = apart+1, list[1]; last.at.Sub(list[0].at) >= leastDelay {
			apart++
		}
	}
	if apart < 2 {
		return skipf("fewer than two deliveries were tried again after a second or more")
	}
	return last.exchange(t.made).violation("the time of the attempt as "+wire.HeaderWebhookTimestamp, "that of the first one")
}

// bodyOf returns the canonical body of a post without its cursor.
func bodyOf(p post) string {
	members := objectOf(p.body)
	delete(members, "cursor")
	return canonicalJSON(verdict.Encode(members))
}

func checkPassed(_ context.Context, _ *run, t *retrial) error {
	switch {
	case t.afterLater == nil || len(t.callback.postsOf(t.waited)) < 2: // or the server gave up, which settles it
		return skipf("nothing was delivered, with a cursor, while another one waited")
	case !slices.Contains(t.afterLater, t.waited):
		return t.passing.violation("a cursor that leads to "+wire.Shown(t.waited)+", which was answered 503 and not taken since", "%s", first(t.afterLater))
	}
	return nil
}

func checkRefreshCursor(_ context.Context, _ *run, t *retrial) error {
	switch {
	case t.afterRefresh == nil || len(t.callback.postsOf(t.refreshed)) < 2:
		return skipf("no refresh had a cursor while a delivery waited")
	case !slices.Contains(t.afterRefresh, t.refreshed):
		return t.refresh.violation("a cursor that leads to "+wire.Shown(t.refreshed)+", which was answered 503 and not taken since", "%s", first(t.afterRefresh))
	}
	return nil
}

func checkForgotten(_ context.Context, _ *run, t *retrial) error {
	switch {
	case t.refresh == nil:
		return skipf("no delivery waited during a refresh")
	case t.neverRetried != "" && len(t.callback.postsOf(t.neverRetried)) < 2:
		return t.refresh.violation(wire.Shown(t.neverRetried)+" to be tried again, as those before the refresh were", "nothing of it")
	}
	return nil
}

// checkRefreshRepeats examines the main callback and that of the retrial, whose subscriptions were refreshed many
// times.
func checkRefreshRepeats(_ context.Context, r *run) error {
	return expectNoRepeats(r.mainSubscription.made, r.mainSubscription.callback, r.retrial.callback)
}

func checkFinal(ctx context.Context, r *run, t *retrial) error {
	if t.stoppedAfter410 {
		return t.callback.postsOf(t.refused410)[0].exchange(t.made).violation("other deliveries after a 410", "none, while more occurred")
	}
	if t.refused413 == "" {
		return skipf("nothing was delivered that could be refused")
	}
	pause(ctx, time.Until(t.rejectedAt.Add(t.retryTime(r))))
	for id, status := range map[string]string{t.refused410: "410", t.refused413: "413"} {
		if list := t.callback.postsOf(id); len(list) > 1 {
			return list[1].exchange(t.made).violation("no further attempt after "+status, "one after %v", list[1].at.Sub(list[0].at).Round(time.Millisecond))
		}
	}
	return nil
}

func checkHanging(_ context.Context, _ *run, t *retrial) error {
	switch {
	case !t.withheld:
		return skipf("no other callback was delivered to")
	case t.receivedCount > 0:
		return nil
	case t.occurredCount < 2:
		return skipf("too little occurred meanwhile")
	}
	return t.made.violation("deliveries while another callback hangs", "none, while %d occurrences came by a stream", t.occurredCount)
}

// checkComesAgain is only advice because the server chooses the retry delay.
func checkComesAgain(ctx context.Context, r *run, t *retrial) error {
	if len(t.refused503) == 0 {
		return verdict.Skipped(t.failure)
	}
	list := t.callback.postsOf(t.refused503[0])
	if len(list) < 2 {
		return list[0].exchange(t.made).violation("another attempt by the end of the run", "none within %v", time.Since(list[0].at).Round(time.Second)).AsAdvice()
	}
	return nil
}
