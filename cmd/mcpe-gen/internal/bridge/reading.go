package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
)

// A batchRow is a batch as the agent sees it.
type batchRow struct {
	ID           string        `json:"id"`
	Server       string        `json:"server"`
	Event        string        `json:"event"`
	Subscription string        `json:"subscription"`
	Count        int           `json:"count"`
	First        *time.Time    `json:"first,omitempty"`
	Last         *time.Time    `json:"last,omitempty"`
	Events       []inbox.Event `json:"events"`
	Announced    bool          `json:"announced,omitempty"`
	// CommandFailed is why the command of wake.exec has given it up.
	CommandFailed string `json:"commandFailed,omitempty"`
}

func rows(batches []inbox.Batch, marks []inbox.Mark) []batchRow {
	all := []batchRow{}
	for i, b := range batches {
		r := batchRow{ID: b.ID(), Server: b.Server, Event: b.Event, Subscription: b.Subscription, Count: b.Count, Events: b.Events}
		if marks != nil {
			r.Announced, r.CommandFailed = marks[i].Announced, marks[i].Failure
		}
		if b.Count > 1 {
			r.First, r.Last = &b.First, &b.Last
		}
		all = append(all, r)
	}
	return all
}

// An inboxResult is what events_wait and events_inbox return.
type inboxResult struct {
	Notice  string     `json:"notice"`
	Batches []batchRow `json:"batches"`
	// More is how many batches are unread beside these.
	More int    `json:"unreadMore"`
	Hint string `json:"hint,omitempty"`
	Read *int   `json:"markedAsRead,omitempty"`
}

func (t *tools) wait(ctx context.Context, req *mcp.CallToolRequest) (any, error) {
	in := struct {
		WaitSeconds, QuietSeconds int
		Subscription              string
	}{WaitSeconds: defaultWaitSeconds}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	if in.Subscription != "" {
		if _, err := t.feedOf(in.Subscription); err != nil {
			return nil, err
		}
	}
	stop := t.progress(ctx, req, in.WaitSeconds)
	defer stop()
	limit, cancel := context.WithTimeout(ctx, time.Duration(in.WaitSeconds)*time.Second)
	defer cancel()
	defer context.AfterFunc(t.e.ctx, cancel)()
	keep := of(in.Subscription)
	box := t.e.state.box
	for ctx.Err() == nil {
		changed := box.Changed()
		if box.Count(keep) > 0 {
			t.quiet(limit, keep, time.Duration(in.QuietSeconds)*time.Second)
			if !t.pace.take(limit) {
				return inboxResult{Notice: notice, Batches: []batchRow{}, More: box.Count(keep),
					Hint: "The bridge shows no more now: limits.batchesPerMinute is reached. Call again later."}, nil
			}
			select {
			case t.agent.turn <- struct{}{}:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(turnTime):
				t.pace.giveBack()
				return inboxResult{Notice: notice, Batches: []batchRow{}, More: box.Count(keep), Hint: "Another result is still being written. Call again later."}, nil
			}
			if l := box.Take(t.e.c.Limits.EventsPerBatch, keep); l != nil {
				t.agent.shows(req.Extra, l)
				return inboxResult{Notice: notice, Batches: rows(l.Batches, l.Marks), More: box.Count(keep)}, nil
			}
			<-t.agent.turn
			t.pace.giveBack()
		}
		select {
		case <-changed:
		case <-limit.Done():
			if ctx.Err() != nil {
				break
			}
			out := inboxResult{Notice: notice, Batches: []batchRow{}, Hint: "Nothing came in time. Call events_wait again: nothing is missed between two calls."}
			if t.e.ctx.Err() != nil {
				out.Hint = "The bridge is ending. What comes until it starts again is caught up then."
			}
			return out, nil
		}
	}
	return nil, context.Cause(ctx)
}

// quiet waits until nothing has come for a while.
func (t *tools) quiet(ctx context.Context, keep func(*inbox.Batch, inbox.Mark) bool, d time.Duration) {
	if d <= 0 {
		return
	}
	box := t.e.state.box
	still := time.NewTimer(d)
	defer still.Stop()
	seen := t.newest(keep)
	for {
		changed := box.Changed()
		if now := t.newest(keep); now > seen {
			seen = now
			still.Reset(d)
		}
		select {
		case <-changed:
		case <-still.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// newest is the sequence of the newest unread batch.
func (t *tools) newest(keep func(*inbox.Batch, inbox.Mark) bool) (newest uint64) {
	t.e.state.box.Count(func(b *inbox.Batch, m inbox.Mark) bool {
		if keep == nil || keep(b, m) {
			newest = max(newest, b.Sequence)
		}
		return false
	})
	return newest
}

// progress tells a caller who has asked for it that its call goes on.
func (t *tools) progress(ctx context.Context, req *mcp.CallToolRequest, seconds int) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			// A caller that is gone ends the call itself.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token,
				Progress: float64(n) * progressEvery.Seconds(), Total: float64(seconds), Message: "waiting for events"})
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (t *tools) inbox(_ context.Context, req *mcp.CallToolRequest) (any, error) {
	var in struct {
		Read         []string
		Subscription string
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	box := t.e.state.box
	out := inboxResult{Notice: notice}
	if in.Read != nil {
		var sequences []uint64
		for _, id := range in.Read {
			s, ok := inbox.ParseID(id)
			if !ok {
				return nil, fmt.Errorf("read: %q is not the id of a batch", id)
			}
			sequences = append(sequences, s)
		}
		n, err := box.Read(sequences...)
		if err != nil {
			return nil, err
		}
		out.Read = &n
	}
	keep := of(in.Subscription)
	events := t.e.c.Limits.EventsPerBatch
	batches, marks := box.Unread(events, keep)
	n := 0
	for _, b := range batches {
		if events -= len(b.Events); events < 0 && n > 0 {
			break
		}
		n++
	}
	out.Batches, out.More = rows(batches[:n], marks[:n]), box.Count(keep)-n
	return out, nil
}
