package conform

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// retryChecks examine how the server retried the deliveries that the retrial rejected.
var retryChecks = []check{
	{id: "HOOK-3", title: "a refused event does not hold up later events", needs: needHook | needRetrial, run: retried(checkNotHeld)},
	{id: "HOOK-3", title: "there is a pause before a delivery is tried again", needs: needHook | needRetrial, run: retried(checkPauses)},
	{id: "HOOK-1", title: "a delivery that is tried again is the same occurrence", needs: needHook | needRetrial, run: retried(checkSameBody)},
	{id: "HOOK-3", title: "each attempt has its own time", needs: needHook | needRetrial, run: retried(checkTimes)},
	{id: "HOOK-6", title: "the cursor of a delivery does not pass a refused event", needs: needHook | needRetrial, run: retried(checkPassed)},
	{id: "SUB-7", title: "the cursor of a refresh does not pass a delivery that was refused", needs: needHook | needRetrial, run: retried(checkRefreshCursor)},
	{id: "SUB-5", title: "a refresh does not forget a delivery that was refused", needs: needHook | needRetrial, run: retried(checkForgotten)},
	{id: "SUB-5", title: "a refresh repeats nothing that was taken", needs: needHook | needRetrial, run: checkRefreshRepeats},
	{id: "HOOK-3", title: "410 and 413 are final for their event, and for no other", needs: needHook | needRetrial, run: retried(checkFinal)},
	{id: "HOOK-4", title: "a callback that hangs holds no other one", needs: needHook | needRetrial, run: retried(checkHanging)},
	{id: "HOOK-3", title: "a refused event is sent again", needs: needHook | needRetrial, run: retried(checkComesAgain)},
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

// attempts returns the posts of one occurrence.
func (c *callback) attempts(id string) (list []post) {
	for _, p := range c.received() {
		if isOccurrence(p) && (occurrence{raw: p.body}).eventID() == id {
			list = append(list, p)
		}
	}
	return list
}

// checkNotHeld examines the deliveries that were rejected in sequence. Each one is a different occurrence.
func checkNotHeld(_ context.Context, _ *run, t *retrial) error {
	if len(t.plain) < refusedInARow {
		return verdict.Skipped(t.why)
	}
	// The callback rejected the second delivery only after it had accepted the first, so no new delivery arrived in
	// between.
	for i, id := range t.plain[:len(t.plain)-1] {
		list, next := t.callback.attempts(id), t.callback.attempts(t.plain[i+1])
		if len(list) < 2 || next[0].at.Before(list[len(list)-1].at) {
			return nil
		}
	}
	first, last := t.callback.attempts(t.plain[0]), t.callback.attempts(t.plain[len(t.plain)-1])
	return last[0].exchange(t.made).wrong("other occurrences while "+wire.Shown(t.plain[0])+" waits for its next attempt",
		"nothing but attempts of one occurrence at a time for %v", last[0].at.Sub(first[0].at).Round(time.Millisecond))
}

func checkPauses(_ context.Context, r *run, t *retrial) error {
	var pauses []time.Duration
	var last post
	for _, id := range t.plain {
		if list := t.callback.attempts(id); len(list) > 1 {
			pauses, last = append(pauses, list[1].at.Sub(list[0].at)), list[1]
		}
	}
	if len(pauses) < 2 {
		return skipf("fewer than two deliveries were tried again")
	}
	if usual := median(pauses); usual < r.o.pace.retry {
		return last.exchange(t.made).wrong("pauses of "+r.o.pace.retry.String()+" and more", "%v", usual.Round(time.Millisecond))
	}
	return nil
}

func checkSameBody(_ context.Context, _ *run, t *retrial) error {
	tried := false
	for _, id := range append(slices.Clone(t.plain), t.refreshed) {
		list := t.callback.attempts(id)
		for _, p := range list[min(1, len(list)):] {
			tried = true
			if a, b := bodyOf(list[0]), bodyOf(p); a != b {
				return p.exchange(t.made).wrong("the occurrence of the first attempt but for its cursor: "+wire.Shown(a), "%s", wire.Shown(b))
			}
		}
	}
	if !tried {
		return skipf("no delivery was tried again")
	}
	return nil
}

// checkTimes compares the timestamps of attempts separated by more than a second. Either attempt may have been delayed
// in transit.
func checkTimes(_ context.Context, _ *run, t *retrial) error {
	apart := 0
	var last post
	for _, id := range append(slices.Clone(t.plain), t.refreshed) {
		list := t.callback.attempts(id)
		if len(list) < 2 || list[1].at.Sub(list[0].at) < time.Second {
			continue
		}
		if list[0].header.Get(wire.HeaderWebhookTimestamp) != list[1].header.Get(wire.HeaderWebhookTimestamp) {
			return nil
		}
		apart, last = apart+1, list[1]
	}
	if apart < 2 {
		return skipf("fewer than two deliveries were tried again after a second or more")
	}
	return last.exchange(t.made).wrong("the time of the attempt as "+wire.HeaderWebhookTimestamp, "that of the first one, on %d deliveries", apart)
}

// bodyOf returns the canonical body of a post without its cursor.
func bodyOf(p post) string {
	members := objectOf(p.body)
	delete(members, "cursor")
	return canonical(encode(members))
}

func checkPassed(_ context.Context, _ *run, t *retrial) error {
	switch {
	case t.passed == nil || len(t.callback.attempts(t.waited)) < 2: // or the server gave up, which settles it
		return skipf("nothing was delivered, with a cursor, while another one waited")
	case !slices.Contains(t.passed, t.waited):
		return t.passing.wrong("a cursor that leads to "+wire.Shown(t.waited)+", which was answered 503 and not taken since", "%s", first(t.passed))
	}
	return nil
}

func checkRefreshCursor(_ context.Context, _ *run, t *retrial) error {
	switch {
	case t.led == nil || len(t.callback.attempts(t.refreshed)) < 2:
		return skipf("no refresh had a cursor while a delivery waited")
	case !slices.Contains(t.led, t.refreshed):
		return t.refresh.wrong("a cursor that leads to "+wire.Shown(t.refreshed)+", which was answered 503 and not taken since", "%s", first(t.led))
	}
	return nil
}

func checkForgotten(_ context.Context, _ *run, t *retrial) error {
	switch {
	case t.refresh == nil:
		return skipf("no delivery waited during a refresh")
	case t.forever != "" && len(t.callback.attempts(t.forever)) < 2:
		return t.refresh.wrong(wire.Shown(t.forever)+" to be tried again, as those before the refresh were", "nothing of it")
	}
	return nil
}

// checkRefreshRepeats examines the main callback and that of the retrial, whose subscriptions were refreshed many
// times.
func checkRefreshRepeats(_ context.Context, r *run) error {
	return expectNoRepeats(r.main.made, r.main.callback, r.retrial.callback)
}

func checkFinal(ctx context.Context, r *run, t *retrial) error {
	if t.stopped {
		return t.callback.attempts(t.gone)[0].exchange(t.made).wrong("other deliveries after a 410", "none, while more occurred")
	}
	if t.large == "" {
		return skipf("nothing was delivered that could be refused")
	}
	// Wait longer than an earlier retry took.
	took := r.o.pace.quiet
	for _, id := range t.plain {
		if list := t.callback.attempts(id); len(list) > 1 {
			took = max(took, 2*list[1].at.Sub(list[0].at))
		}
	}
	pause(ctx, time.Until(t.after.Add(min(took, r.o.Wait))))
	for id, status := range map[string]string{t.gone: "410", t.large: "413"} {
		if list := t.callback.attempts(id); len(list) > 1 {
			return list[1].exchange(t.made).wrong("no further attempt after "+status, "one after %v", list[1].at.Sub(list[0].at).Round(time.Millisecond))
		}
	}
	return nil
}

func checkHanging(_ context.Context, _ *run, t *retrial) error {
	switch {
	case !t.hung:
		return skipf("no other callback was delivered to")
	case t.got > 0:
		return nil
	case t.occurred < 2:
		return skipf("too little occurred meanwhile")
	}
	return t.made.wrong("deliveries while another callback hangs", "none, while %d occurrences came by a stream", t.occurred)
}

// checkComesAgain is only advice because the server chooses the retry delay.
func checkComesAgain(ctx context.Context, r *run, t *retrial) error {
	if len(t.plain) == 0 {
		return verdict.Skipped(t.why)
	}
	list := t.callback.attempts(t.plain[0])
	if len(list) < 2 {
		v := list[0].exchange(t.made).wrong("another attempt by the end of the run", "none within %v", time.Since(list[0].at).Round(time.Second))
		v.Mild = true
		return v
	}
	return nil
}
