package conform

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// restartChecks examine what survives a restart. The first check performs the restart.
var restartChecks = []check{
	{name: "restart-cursor", id: "CUR-1", title: "After a restart, an earlier cursor is valid or truncated", needs: needRestart | needPoll | needReplay | needOccurred, run: checkRestartCursor},
	{name: "restart-replay", id: "SRV-4", title: "A cursor from before a restart replays later events", needs: needRestart | needPoll | needReplay | needOccurred, advice: true, run: checkRestartReplays},
	{name: "restart-delivery", id: "SUB-11", title: "Deliveries continue after a restart or after a refresh", needs: needRestart | needHook | needOccurred, run: checkRestartDelivers},
}

// A restartState records the state before the server's restart and the outcome of the restart.
type restartState struct {
	err error
	// ids are the eventIds known after the initial cursor.
	ids      []string
	callback *callback
	made     *exchange
	at       time.Time
}

// restart restarts the server, once per run, and waits until it responds.
func (r *run) restart(ctx context.Context) (*restartState, error) {
	if r.restartResult != nil {
		return r.restartResult, r.restartResult.err
	}
	again := &restartState{}
	r.restartResult = again
	if r.poll != nil && r.poll.first != nil {
		again.ids = r.idsAfter(ctx, r.poll, *r.poll.first)
	}
	if r.mainSubscription != nil {
		again.callback = r.newCallback(echoes)
		outside := context.WithValue(ctx, checkKey{}, nil) // the subscription outlives the check
		again.made, again.err = r.mustSubscribe(outside, r.hook, again.callback, nil)
		if again.err == nil {
			again.callback.await(ctx, 0, r.o.Wait, isOccurrence)
		}
	}
	if err := r.o.restart(ctx); err != nil {
		again.err = skipf("--restart: %v", err)
		return again, again.err
	}
	pause(ctx, r.o.pace.settle) // messages that the old server sent
	again.at = time.Now()
	for end := again.at.Add(r.o.pace.slow.restartTime); ; {
		if err := r.repeatHandshake(ctx); err == nil {
			return again, again.err
		} else if time.Now().After(end) || ctx.Err() != nil {
			again.err = skipf("the server was not there again within %v: %v", r.o.pace.slow.restartTime, err)
			return again, again.err
		}
		pause(ctx, r.o.pace.poll)
	}
}

// repeatHandshake performs the handshake again because a restart ends legacy sessions.
func (r *run) repeatHandshake(ctx context.Context) error {
	if r.revision >= wire.RevisionStateless {
		return r.handshake(ctx, wire.RevisionStateless, methodDiscover, nil)
	}
	return r.initialize(ctx)
}

func (r *run) pollAfterRestart(ctx context.Context) (again *restartState, x *exchange, page polledPage, err error) {
	if again, err = r.restart(ctx); err != nil {
		return
	}
	x, page, err = r.pollQuietly(ctx, r.poll, map[string]any{"cursor": r.poll.first})
	if err != nil {
		err = x.violation("a page, truncated or not", "%v", err)
	}
	return
}

func checkRestartCursor(ctx context.Context, r *run) error {
	again, x, page, err := r.pollAfterRestart(ctx)
	if err != nil || page.Truncated || len(again.ids) == 0 {
		return err
	}
	for _, raw := range page.Events {
		if (occurrence{raw: raw}).eventID() == again.ids[0] {
			return nil
		}
	}
	return x.violation(wire.Shown(again.ids[0])+", which came after that cursor before the restart, or truncated", "neither")
}

func checkRestartReplays(ctx context.Context, r *run) error {
	again, x, page, err := r.pollAfterRestart(ctx)
	if err != nil {
		return err
	}
	if len(again.ids) == 0 {
		return skipf("nothing was behind the first cursor")
	}
	if page.Truncated {
		return x.violation("what came after the cursor before the restart", "truncated")
	}
	return nil
}

func checkRestartDelivers(ctx context.Context, r *run) error {
	again, err := r.restart(ctx)
	if err != nil {
		return err
	}
	if again.callback == nil {
		return skipf("there was no subscription")
	}
	after := func(p post) bool { return isOccurrence(p) && p.at.After(again.at) }
	if _, ok := again.callback.await(ctx, 0, r.o.pace.slow.resumeTime, after); ok {
		return nil
	}
	x, err := r.mustSubscribe(ctx, r.hook, again.callback, nil)
	if err != nil {
		return err
	}
	if _, ok := again.callback.await(ctx, 0, r.o.pace.slow.resumeTime, after); !ok {
		return x.violation("deliveries after the restart", "none within %v, nor within %v after a refresh", r.o.pace.slow.resumeTime, r.o.pace.slow.resumeTime)
	}
	return x.violation("deliveries to go on after a restart", "none within %v; they came after a refresh", r.o.pace.slow.resumeTime).AsAdvice()
}
