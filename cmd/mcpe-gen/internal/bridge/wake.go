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

// Names of Claude Code's channels, a research preview.
const (
	channelCapability   = "claude/channel"
	channelNotification = "notifications/claude/channel"
)

// A channelMessage is what a channel's notification carries. The keys of Meta have letters, digits and underscores.
type channelMessage struct {
	Content string            `json:"content"`
	Meta    map[string]string `json:"meta"`
}

// announce sends a notification for what is unread, once the agent is initialized, until the bridge ends. What was
// announced stays unread for the tools, and is not announced again.
func (t *tools) announce(ctx context.Context) {
	select {
	case <-t.agent.initialized():
	case <-ctx.Done():
		return
	}
	box := t.e.state.box
	for ctx.Err() == nil {
		changed := box.Changed()
		fresh := func(_ *inbox.Batch, m inbox.Mark) bool { return !m.Announced }
		if box.Count(fresh) > 0 && t.channel.take(ctx) {
			of := ""
			l := box.Take(t.e.c.Limits.EventsPerBatch, func(b *inbox.Batch, m inbox.Mark) bool {
				if m.Announced || of != "" && b.Subscription != of {
					return false
				}
				of = b.Subscription // a notification is of one subscription
				return true
			})
			if l != nil {
				if !t.announceBatches(ctx, l) {
					return
				}
				continue
			}
			t.channel.giveBack() // somebody shows them now
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// announceBatches sends one notification. It reports false when no further one can be sent.
func (t *tools) announceBatches(ctx context.Context, l *inbox.Lease) bool {
	m, err := channelOf(l.Batches)
	if err == nil {
		err = t.agent.notify(ctx, channelNotification, m)
	}
	if err != nil {
		l.Release()
		if ctx.Err() == nil {
			t.e.say("the channel has ended: %v", err)
		}
		return false
	}
	if err := l.Mark(func(m *inbox.Mark) { m.Announced = true }); err != nil {
		t.e.say("marking events as announced: %v; they will be announced again", err)
		return false
	}
	return true
}

// channelOf is the message for batches of one subscription.
func channelOf(batches []inbox.Batch) (m channelMessage, err error) {
	text, err := shown(rows(batches, nil))
	count, ids := 0, []string{}
	for _, b := range batches {
		count += b.Count
		ids = append(ids, b.ID())
	}
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
	// commandDrain is how long a command that runs may go on when the bridge ends.
	commandDrain = 5 * time.Second
	// restart is how long to wait when the command cannot be started.
	restart = time.Minute
)

// newCommand is the command as one subscription runs it.
func newCommand(c *config.Config) *wake.Command {
	x := c.Exec
	return &wake.Command{Argv: x.Command, Dir: c.Dir, Secrets: c.TokenVariables(), Timeout: x.Timeout, Drain: commandDrain, PerMinute: x.PerMinute}
}

// command runs the command for each unread batch of the feed, the oldest first, until ctx is done.
func (f *feed) command(ctx context.Context) {
	box := f.e.state.box
	run := newCommand(f.e.c)
	for ctx.Err() == nil {
		changed := box.Changed()
		next, _ := box.Unread(1, func(b *inbox.Batch, m inbox.Mark) bool { return b.Subscription == f.id && !m.Commanded })
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
		pause, err := f.commanded(&next[0], outcome, err)
		if err != nil && ctx.Err() == nil {
			f.e.say("%s: %s: %v", f.name(), next[0].ID(), err)
		}
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// commanded writes down what the command has made of a batch, and says how long to wait before the next.
func (f *feed) commanded(b *inbox.Batch, outcome wake.Outcome, err error) (time.Duration, error) {
	box := f.e.state.box
	switch {
	case outcome == wake.Retry || errors.As(err, new(*wake.StartError)):
		return restart, err
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
		return restart, err // it will be run again: the disk may be full
	}
	return 0, nil
}

// commandBatch is a batch as a command reads it.
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
