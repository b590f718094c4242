package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/wake"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// These names belong to Claude Code's channels, a research preview.
const (
	channelCapability   = "claude/channel"
	channelNotification = "notifications/claude/channel"
)

// A channelMessage is the payload of a channel notification. The keys of Meta may contain only letters, digits and
// underscores.
type channelMessage struct {
	Content string            `json:"content"`
	Meta    map[string]string `json:"meta"`
}

// announce sends notifications about unread batches until the window ends. It starts once the agent is initialized.
// Announced batches remain unread for the tools but are announced only once.
func (w *window) announce() {
	select {
	case <-w.agent.initialized():
	case <-w.ctx.Done():
		return
	}
	for w.ctx.Err() == nil {
		var there awaitResult
		err := w.await(w.ctx, awaitParams{Fresh: true, Until: time.Now().Add(awaitTime)}, &there)
		if err == nil && there.Unread > 0 && w.channel.wait(w.ctx) {
			err = w.announceNext()
		}
		if err == nil {
			continue
		}
		if w.ctx.Err() == nil {
			w.printMessage("the channel: %v", err)
		}
		select {
		case <-time.After(pauseMin):
		case <-w.ctx.Done():
		}
	}
}

// announceNext sends one notification.
func (w *window) announceNext() error {
	taken, err := w.take(w.ctx, takeParams{Fresh: true})
	if err != nil || taken.Lease == "" {
		w.channel.giveBack() // another window shows them now
		return err
	}
	s := settlement{Lease: taken.Lease}
	sequences, err := sequencesOf(taken.Batches)
	if err == nil {
		var m channelMessage
		if m, err = channelOf(taken.Batches); err == nil {
			err = w.agent.notify(w.ctx, channelNotification, m)
		}
	}
	if err == nil {
		s.Announced = sequences
	}
	return errors.Join(err, w.settle(w.ctx, s))
}

// channelOf returns the channel message for batches of one subscription.
func channelOf(batches []batchRow) (m channelMessage, err error) {
	count, ids := 0, []string{}
	for i := range batches {
		count += batches[i].Count
		ids = append(ids, batches[i].ID)
	}
	text, err := resultText(batches)
	first := batches[0]
	return channelMessage{
		Content: notice + " They stay in the inbox until events_inbox marks them as read.\n" + text,
		Meta: map[string]string{
			"server": first.Server, "event": plain.Text(plain.Cut(first.Event, maxText)), "subscription": first.Subscription,
			"batches": strings.Join(ids, ","), "count": strconv.Itoa(count),
		},
	}, err
}

const (
	// commandDrain is how long a running command may continue while the bridge shuts down.
	commandDrain = 5 * time.Second
	// commandRetryDelay is the delay before the bridge retries a command that could not be started.
	commandRetryDelay = time.Minute
)

// newCommand returns the command that is run for a subscription.
func newCommand(c *config.Config) *wake.Command {
	x := c.Exec
	return &wake.Command{Argv: x.Command, Dir: c.Dir, Secrets: c.TokenVariables(), Timeout: x.Timeout, Drain: commandDrain, PerMinute: x.PerMinute}
}

// runCommands runs the command for each unread batch of the feed, oldest first, until ctx is done.
func (f *feed) runCommands(ctx context.Context) {
	box := f.e.state.box
	run := newCommand(f.e.c)
	for ctx.Err() == nil {
		changed := box.Changed()
		next, _ := box.Unread(1, func(b *inbox.Batch, m inbox.Mark) bool {
			return b.Subscription == f.id && !m.Commanded && f.breaker.pausedSince().IsZero()
		})
		if len(next) > 0 && !f.mayWake(ctx, next) {
			continue
		}
		if len(next) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		b, err := commandBatch(&next[0])
		var outcome wake.Outcome
		if err == nil {
			outcome, err = run.Run(ctx, b)
		}
		pause, err := f.recordOutcome(&next[0], outcome, err)
		if err != nil && ctx.Err() == nil {
			f.e.printMessage("%s: %s: %v", f.name(), next[0].ID(), err)
		}
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// recordOutcome stores the outcome of the command for a batch and returns the delay before the next run.
func (f *feed) recordOutcome(b *inbox.Batch, outcome wake.Outcome, err error) (time.Duration, error) {
	box := f.e.state.box
	switch {
	case outcome == wake.Retry || errors.As(err, new(*wake.StartError)):
		return commandRetryDelay, err
	case outcome == wake.DeadLetter:
		failure := plain.Text(plain.Cut(err.Error(), maxText))
		kept := box.Mark(func(m *inbox.Mark) { m.Commanded, m.Failure = true, failure }, b.Sequence)
		return 0, errors.Join(err, kept)
	case f.e.c.Exec.KeepUnread:
		err = box.Mark(func(m *inbox.Mark) { m.Commanded = true }, b.Sequence)
	default:
		_, err = box.Read(b.Sequence)
	}
	if err != nil {
		return commandRetryDelay, err // it will run once more: the disk may be full
	}
	return 0, nil
}

// commandBatch converts a batch to the input of the command.
func commandBatch(b *inbox.Batch) (wake.Batch, error) {
	w := wake.Batch{Server: b.Server, Event: b.Event, Subscription: b.Subscription, Count: b.Count, First: b.First, Last: b.Last}
	for _, e := range b.Events {
		raw, err := json.Marshal(e)
		if err != nil {
			return w, err
		}
		w.Events = append(w.Events, raw)
	}
	return w, nil
}
