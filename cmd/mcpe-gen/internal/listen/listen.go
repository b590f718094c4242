// Package listen implements `mcpe-gen listen`. It subscribes to an event type of a server that supports the Events
// extension and prints the events. It can also post the events to a URL or run a command for them.
//
// Start with [Run]. display.go prints events, pick.go chooses an event type, forward.go posts events to a URL,
// consume.go runs commands for batches, and webhook.go receives webhooks. To support a new delivery mode of the client,
// add it to [Modes].
package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/wake"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
)

// Modes contains the supported delivery modes. With auto the client chooses, and uses webhook only if there is a
// [peer.Receiver].
var Modes = []string{"auto", wire.ModePoll, wire.ModePush, wire.ModeWebhook}

// Options configures which events to listen to and how to handle them.
type Options struct {
	Target peer.Target
	// Event is the name of the event type. If it is empty, Run prompts for one.
	Event string
	// Args are the arguments of the subscription in the form KEY=VALUE.
	Args []string
	// Mode is one of Modes.
	Mode string
	// Receiver is the address that receives webhooks.
	Receiver peer.Receiver
	// JSON prints one JSON object per line.
	JSON bool
	// Forward is the URL that Run posts every occurrence to. If it is empty, occurrences are not forwarded.
	Forward string
	// Exec is the command to run for each batch of events. It is optional.
	Exec *wake.Command
	// Print prints a line of JSON of limited length for each batch, and nothing else, to Stdout.
	Print bool
	// Burst defines the batches of Exec and Print.
	Burst Burst
	// CursorFile stores the position and the dead letters between runs. If it is empty, the run starts with new events.
	CursorFile string
	// Count is the number of occurrences after which the run ends. If it is 0, the run has no limit.
	Count int
	// Quiet suppresses everything except occurrences, gaps and errors.
	Quiet bool

	// Stdin is read when Run prompts for an event type. If it is nil, Run does not prompt.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Live shows a line of counts at the bottom of the terminal. Color enables ANSI escape codes.
	Live, Color bool
}

// Check returns an error if the options are invalid. It does not connect to the server.
func (o Options) Check() error {
	if err := o.Target.Check(); err != nil {
		return cli.Refusef("%v", err)
	}
	if !slices.Contains(Modes, o.Mode) {
		return cli.Refusef("--mode %s: must be %s", o.Mode, strings.Join(Modes, ", "))
	}
	if err := o.checkReceiver(); err != nil {
		return err
	}
	if err := peer.CheckPairs(o.Args); err != nil {
		return cli.Refusef("%v", err)
	}
	if o.Forward != "" && !peer.IsURL(o.Forward) {
		return cli.Refusef("--forward %s: must be a URL that begins with http:// or https://", o.Forward)
	}
	if o.Count < 0 {
		return cli.Refusef("-n %d: must not be negative", o.Count)
	}
	return o.checkConsuming()
}

// Run listens until ctx is done, the count is reached, or the server ends the subscription. It returns nil if ctx is
// done.
func Run(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	co := client.Options{}
	var keep clientstore.ConsumerStore = clientmemory.NewCursors()
	if o.CursorFile != "" {
		cursors, err := file.OpenCursors(o.CursorFile)
		if err != nil {
			return err
		}
		defer cursors.Close()
		co.Cursors, keep = cursors, cursors
	} else if o.consumes() {
		co.Cursors = keep
	}
	var err error
	if co.Webhook, err = o.openReceiver(); err != nil {
		return err
	}
	err = o.run(ctx, co, keep)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (o Options) run(ctx context.Context, co client.Options, keep clientstore.ConsumerStore) error {
	c, err := o.Target.Connect(ctx, co)
	if err != nil {
		return err
	}
	defer c.Close()
	catalog, err := c.List(ctx)
	switch {
	case errors.Is(err, client.ErrNoEvents):
		return fmt.Errorf("%s is an MCP server without events", o.Target)
	case err != nil:
		return fmt.Errorf("listing the event types of %s: %w", o.Target, err)
	}
	for _, bad := range c.Unreadable() {
		fmt.Fprintf(o.Stderr, "warning: %s\n", plain.Text(bad.Error()))
	}
	d, err := o.chooseEvent(ctx, catalog)
	if err != nil {
		return err
	}
	args, err := peer.Arguments(o.Args, d.InputSchema)
	if err != nil {
		return cli.Refusef("%v", err)
	}
	if o.consumes() {
		return o.consume(ctx, c, keep, d, args)
	}
	so := []client.SubscribeOption{client.WithMode(o.Mode)}
	if o.CursorFile != "" {
		so = append(so, client.WithCursorKey(cursorKey(o.Target, d.Name, args)))
	}
	sub, err := client.Subscribe(ctx, c, client.Dynamic(d.Name), args, so...)
	if err != nil {
		return o.explainRefusal(err, d)
	}
	defer sub.Close()
	t := &tail{o: o, sub: sub, show: newDisplay(o), forward: newForwarder(o.Forward)}
	return t.listen(ctx, d.Name)
}

// cursorKey returns the name of the subscription in the cursor file.
func cursorKey(t peer.Target, event string, args json.RawMessage) string {
	canonical, err := wire.Canonical(args)
	if err != nil {
		canonical = args
	}
	return strings.Join([]string{t.String(), event, string(canonical)}, " ")
}

// explainRefusal returns an error that explains why the server rejected a subscription.
func (o Options) explainRefusal(err error, d client.Descriptor) error {
	if mode, ok := errors.AsType[*client.NoCompatibleDeliveryModeError](err); ok {
		return cli.Refusef("%s is not delivered by %s; the server offers %s", d.Name, strings.Join(mode.Supported, " or "), plain.Text(strings.Join(mode.Offered, ", ")))
	}
	if err := o.callbackRefused(err); err != nil {
		return err
	}
	if errors.Is(err, events.ErrInvalidParams) {
		return cli.Refusef("%s refuses the arguments: %s; %s takes %s", o.Target, errorText(err), d.Name, peer.DescribeArguments(d.InputSchema))
	}
	return fmt.Errorf("subscribing to %s: %w", d.Name, err)
}

// errorText returns the text of an error, including the server's messages about individual arguments.
func errorText(err error) string {
	if fields := fieldErrors(err); len(fields) > 0 {
		var parts []string
		for _, f := range fields {
			parts = append(parts, plain.Text(strings.TrimSpace(f.Path+" "+f.Message)))
		}
		return strings.Join(parts, "; ")
	}
	return plain.Text(err.Error())
}

// A tail shows one subscription.
type tail struct {
	o       Options
	sub     *client.TypedSubscription[json.RawMessage, json.RawMessage]
	show    *display
	forward *forwarder
	// forwardFailed reports whether forwarding the last occurrence failed, in which case it must be repeated.
	forwardFailed bool
}

func (t *tail) listen(ctx context.Context, event string) error {
	t.show.begin(event, t.sub.Subscription().Mode(), t.o)
	stopWatching := t.show.watchConnection(t.sub.Subscription().Status)
	err := t.printItems(ctx)
	stopWatching()
	t.show.recordRefusals(t.sub.Subscription().Status().Refused)
	if !t.forwardFailed {
		if ack := t.sub.Subscription().Ack(); err == nil {
			err = ack
		}
	}
	t.show.finish(t.o)
	return err
}

// printItems prints each item until the subscription ends.
func (t *tail) printItems(ctx context.Context) error {
	for ev, err := range t.sub.Events() {
		if ctx.Err() != nil {
			return nil
		}
		var gap *client.GapError
		switch {
		case errors.As(err, &gap):
			t.show.printGap(gap)
		case client.Final(err):
			return ended(err)
		case err != nil:
			t.show.printError(err)
		default:
			var passed *forwardResult
			if t.forward != nil {
				if passed = t.forward.post(ctx, ev.Occurrence); ctx.Err() != nil {
					t.forwardFailed = true
					return nil
				}
			}
			if err := t.show.event(ev.Occurrence, t.sub.Subscription().Mode(), passed); err != nil {
				return err
			}
			if t.show.events == t.o.Count {
				return nil
			}
		}
	}
	return nil
}

func ended(err error) error {
	if e, ok := errors.AsType[*client.TerminatedError](err); ok {
		return fmt.Errorf("the server ended the subscription: %s", plain.Text(e.Err.Error()))
	}
	return err
}
