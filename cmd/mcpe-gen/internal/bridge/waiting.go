package bridge

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// These are the hints in results without batches.
const (
	hintNothing = "Nothing came in time. Call events_wait again: nothing is missed between two calls."
	hintEnding  = "The bridge is ending. Events that come meanwhile are caught up at its next start."
	hintPace    = "The bridge shows no more now: limits.batchesPerMinute is reached. Call again later."
	hintTurn    = "Another result is still being written. Call again later."
	hintMissed  = "missedBatches were dropped because this window had not read them when the inbox was full. Another window has read them."
)

// wait implements events_wait.
func (w *window) wait(ctx context.Context, req *mcp.CallToolRequest) (any, error) {
	in := struct {
		WaitSeconds, QuietSeconds int
		Subscription              string
	}{WaitSeconds: defaultWaitSeconds}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	stop := w.progress(ctx, req, in.WaitSeconds)
	defer stop()
	ask := awaitParams{Subscription: in.Subscription, Quiet: in.QuietSeconds, Until: time.Now().Add(time.Duration(in.WaitSeconds) * time.Second)}
	limit, cancel := context.WithDeadline(ctx, ask.Until)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	for {
		var there awaitResult
		err := w.await(ctx, ask, &there)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case w.ctx.Err() != nil:
			return emptyResult(0, hintEnding), nil
		case err != nil:
			return nil, err
		case there.Unread == 0:
			return emptyResult(0, hintNothing), nil
		case !w.pace.wait(limit):
			return emptyResult(there.Unread, hintPace), nil
		}
		select {
		case w.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(turnTime):
			w.pace.giveBack()
			return emptyResult(there.Unread, hintTurn), nil
		}
		taken, err := w.take(ctx, takeParams{Subscription: in.Subscription})
		if err == nil && taken.Lease != "" {
			return w.showBatches(req.Extra, taken)
		}
		<-w.turn
		w.pace.giveBack()
		if err != nil {
			return nil, err
		}
	}
}

// inbox implements events_inbox. It first settles the results that were written earlier.
func (w *window) inbox(ctx context.Context, req *mcp.CallToolRequest) (any, error) {
	select {
	case w.turn <- struct{}{}:
		<-w.turn
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(turnTime):
	}
	return w.forward(opInbox)(ctx, req)
}

// emptyResult returns a result without batches.
func emptyResult(more int, hint string) inboxResult {
	return inboxResult{Notice: notice, Batches: []batchRow{}, More: more, Hint: hint}
}

// await waits until there is an unread batch. It returns an error if w.ctx is done or the hub does not respond in time.
func (w *window) await(ctx context.Context, ask awaitParams, there *awaitResult) error {
	ctx, cancel := context.WithDeadline(ctx, ask.Until.Add(answerTime))
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	return w.call(ctx, opAwait, ask, there)
}

// take takes batches to show. It ignores the cancellation of ctx because batches that are already taken would then not
// be shown.
func (w *window) take(ctx context.Context, what takeParams) (taken takenResult, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	err = w.call(ctx, opTake, what, &taken)
	return taken, err
}

// showBatches returns a result that contains the taken batches. They count as read once the result has been written.
// The caller must hold the turn, which showBatches passes on.
func (w *window) showBatches(extra *mcp.RequestExtra, taken takenResult) (any, error) {
	sequences, err := sequencesOf(taken.Batches)
	back := settlement{Lease: taken.Lease}
	if err != nil {
		w.settling <- back
		return nil, err
	}
	out := taken.inboxResult
	out.Notice = notice
	if out.Missed > 0 {
		out.Hint = hintMissed
	}
	w.agent.onWritten(extra,
		func() { w.settling <- settlement{Read: sequences, Missed: out.Missed, Lease: taken.Lease} },
		func() { w.settling <- back })
	return out, nil
}

// progress sends progress notifications to a caller that requested them.
func (w *window) progress(ctx context.Context, req *mcp.CallToolRequest, seconds int) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			// If the caller is gone, the call ends by itself.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token,
				Progress: float64(n) * progressInterval.Seconds(), Total: float64(seconds), Message: "waiting for events"})
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
