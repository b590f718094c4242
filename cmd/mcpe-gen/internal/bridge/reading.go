package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
)

// A batchRow is a batch in the format for the agent.
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
	// CommandFailed is the reason why the command of wake.exec gave up on the batch.
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

// An inboxResult is the result of events_wait and events_inbox.
type inboxResult struct {
	Notice  string     `json:"notice"`
	Batches []batchRow `json:"batches"`
	// More is the number of other unread batches.
	More int `json:"unreadMore"`
	// Missed is the number of batches that a full inbox dropped after another window had read them but before this
	// window had.
	Missed int    `json:"missedBatches,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Read   *int   `json:"markedAsRead,omitempty"`
}

// awaitParams contains the conditions of events_wait.
type awaitParams struct {
	Subscription string    `json:"subscription,omitempty"`
	Quiet        int       `json:"quietSeconds,omitempty"`
	Until        time.Time `json:"until"`
	// Fresh is for notifications. It excludes batches that were already announced or must not wake the agent.
	Fresh bool `json:"fresh,omitempty"`
}

// An awaitResult is the response to an await request.
type awaitResult struct {
	Unread int `json:"unread"`
}

// isFresh reports whether a batch has not been announced yet and may wake the agent.
func (g *guest) isFresh(b *inbox.Batch, m inbox.Mark) bool {
	return !m.Announced && !g.e.isPaused(b.Subscription)
}

// await waits for an unread batch until the deadline in its parameters.
func (g *guest) await(ctx context.Context, in awaitParams) (any, error) {
	if in.Subscription != "" {
		if _, err := g.feedOf(in.Subscription); err != nil {
			return nil, err
		}
	}
	keep := subscriptionFilter(in.Subscription)
	if in.Fresh {
		keep = g.isFresh
	}
	limit, cancel := context.WithDeadline(ctx, in.Until)
	defer cancel()
	for {
		changed := g.e.state.box.Changed()
		if g.reader.Count(keep) > 0 {
			g.waitUntilQuiet(limit, keep, time.Duration(in.Quiet)*time.Second)
			if n := g.reader.Count(keep); n > 0 {
				return awaitResult{n}, nil
			}
		}
		select {
		case <-changed:
		case <-limit.Done():
			return awaitResult{}, context.Cause(ctx)
		}
	}
}

// takeParams selects the batches for a result or a notification.
type takeParams struct {
	Subscription string `json:"subscription,omitempty"`
	Fresh        bool   `json:"fresh,omitempty"`
}

// A takenResult contains the batches for a window to show. They are reserved for the window until it settles the lease.
type takenResult struct {
	inboxResult
	Lease string `json:"lease,omitempty"`
}

// take reserves unread batches for a result, or unannounced batches of one subscription for a notification.
func (g *guest) take(ctx context.Context, in takeParams) (any, error) {
	keep := subscriptionFilter(in.Subscription)
	if in.Fresh {
		first := ""
		keep = func(b *inbox.Batch, m inbox.Mark) bool {
			if !g.isFresh(b, m) || first != "" && b.Subscription != first {
				return false
			}
			first = b.Subscription
			return true
		}
	}
	l := g.reader.Take(g.e.c.Limits.EventsPerBatch, keep)
	if l == nil {
		return takenResult{}, nil
	}
	if f := g.e.feed(l.Batches[0].Subscription); in.Fresh && f != nil && !f.mayWake(ctx, l.Batches) {
		l.Release()
		return takenResult{}, nil
	}
	out := takenResult{Lease: g.storeLease(l)}
	out.Batches, out.More, out.Missed = rows(l.Batches, l.Marks), g.reader.Count(subscriptionFilter(in.Subscription)), g.reader.Missed()
	return out, nil
}

// A settlement reports which batches a window has shown.
type settlement struct {
	Read      []uint64 `json:"read,omitempty"`
	Announced []uint64 `json:"announced,omitempty"`
	// Missed is the number of missed batches that were reported to the agent.
	Missed int    `json:"missed,omitempty"`
	Lease  string `json:"lease,omitempty"`
}

// settle records the shown batches and releases the others.
func (g *guest) settle(_ context.Context, in settlement) (any, error) {
	defer g.release(in.Lease)
	return struct{}{}, g.markShown(in)
}

// markShown records each of the shown batches once.
func (g *guest) markShown(s settlement) error {
	if _, err := g.reader.Read(s.Read...); err != nil {
		return err
	}
	if err := g.reader.Announced(s.Announced...); err != nil {
		return err
	}
	if s.Missed == 0 {
		return nil
	}
	return g.reader.Reported(s.Missed)
}

// waitUntilQuiet waits until no batch has arrived for d.
func (g *guest) waitUntilQuiet(ctx context.Context, keep func(*inbox.Batch, inbox.Mark) bool, d time.Duration) {
	if d <= 0 {
		return
	}
	box := g.e.state.box
	still := time.NewTimer(d)
	defer still.Stop()
	seen := g.newestSequence(keep)
	for {
		changed := box.Changed()
		if now := g.newestSequence(keep); now > seen {
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

// newestSequence returns the sequence number of the newest unread batch.
func (g *guest) newestSequence(keep func(*inbox.Batch, inbox.Mark) bool) (newest uint64) {
	g.reader.Count(func(b *inbox.Batch, m inbox.Mark) bool {
		if keep == nil || keep(b, m) {
			newest = max(newest, b.Sequence)
		}
		return false
	})
	return newest
}

type inboxParams struct {
	Read         []string
	Subscription string
}

func (g *guest) inbox(_ context.Context, in inboxParams) (any, error) {
	// The last result reported the missed batches to the agent.
	if err := g.reader.Reported(int(g.told.Swap(0))); err != nil {
		return nil, err
	}
	out := inboxResult{Notice: notice, Missed: g.reader.Missed()}
	g.told.Store(int64(out.Missed))
	if in.Read != nil {
		var sequences []uint64
		for _, id := range in.Read {
			s, ok := inbox.ParseID(id)
			if !ok {
				return nil, fmt.Errorf("read: %q is not the id of a batch", id)
			}
			sequences = append(sequences, s)
		}
		n, err := g.reader.Read(sequences...)
		if err != nil {
			return nil, err
		}
		out.Read = &n
	}
	keep := subscriptionFilter(in.Subscription)
	events := g.e.c.Limits.EventsPerBatch
	batches, marks := g.reader.Unread(events, keep)
	n := 0
	for _, b := range batches {
		if events -= len(b.Events); events < 0 && n > 0 {
			break
		}
		n++
	}
	out.Batches, out.More = rows(batches[:n], marks[:n]), g.reader.Count(keep)-n
	return out, nil
}
