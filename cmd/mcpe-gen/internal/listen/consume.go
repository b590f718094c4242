package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/wake"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

const (
	// execDrain is how long a running command may continue at the end of the run. shutdownTime limits the duration of
	// the whole shutdown.
	execDrain    = 10 * time.Second
	shutdownTime = execDrain + 4*wake.Grace
)

// A Burst defines which events form a batch. Unset fields default to the x-coalesce of the event type.
type Burst struct {
	// Key contains JSON Pointers into the payload.
	Key []string
	// Quiet and Max are durations in seconds. A negative Quiet is unset, and 0 disables coalescing. If Max is 0, it is
	// unset.
	Quiet, Max int
}

func (b Burst) given() bool { return len(b.Key) > 0 || b.Quiet >= 0 || b.Max != 0 }

// subscribeOption returns the subscription option for coalescing events of d, or nil if each event is a separate batch.
func (b Burst) subscribeOption(d client.Descriptor) (client.SubscribeOption, error) {
	said, err := wire.CoalesceOf(d.Meta)
	if err != nil && !b.given() {
		return nil, fmt.Errorf("%s says how its events are joined in a way that cannot be used (--quiet-seconds 0 joins none): %w", d.Name, err)
	}
	switch {
	case b.Quiet == 0, said == nil && !b.given():
		return nil, nil
	case said == nil && len(b.Key) == 0:
		return nil, cli.Refusef("%s does not publish which of its events are about the same thing: name the place in the payload by --key, such as --key /id", d.Name)
	case said == nil && b.Quiet < 0:
		return nil, cli.Refusef("%s does not publish how long its events are waited for: give --quiet-seconds", d.Name)
	}
	c := client.Coalescing{Key: b.Key, Quiet: time.Duration(max(b.Quiet, 0)) * time.Second, Max: time.Duration(b.Max) * time.Second}
	if said == nil {
		c.Keep = wire.KeepAll // the user did not say that the latest event is enough
	}
	return client.WithCoalescing(c), nil
}

func (o Options) consumes() bool { return o.Exec != nil || o.Print }

// checkConsuming refuses incompatible options.
func (o Options) checkConsuming() error {
	switch {
	case o.Exec != nil && o.Print:
		return cli.Refusef("--exec and --print: give one of them")
	case o.Exec != nil && o.Forward != "":
		return cli.Refusef("--exec and --forward: give one of them")
	case o.Print && (o.JSON || o.Forward != ""):
		return cli.Refusef("--print cannot be combined with --json or --forward: it has its own format")
	case !o.consumes() && o.Burst.given():
		return cli.Refusef("--key, --quiet-seconds and --max-seconds are for --exec and --print")
	case o.Burst.Max < 0:
		return cli.Refusef("--max-seconds %d: must not be negative", o.Burst.Max)
	case o.Burst.Quiet > 0 && o.Burst.Max > 0 && o.Burst.Max < o.Burst.Quiet:
		return cli.Refusef("--max-seconds %d: must not be less than --quiet-seconds %d", o.Burst.Max, o.Burst.Quiet)
	case slices.ContainsFunc(o.Burst.Key, func(at string) bool { _, ok := wire.SplitPointer(at); return !ok }):
		return cli.Refusef("--key: must be a JSON Pointer to a member of the payload, such as /id")
	case len(o.Burst.Key) > wire.MaxCoalesceKeys:
		return cli.Refusef("--key: at most %d", wire.MaxCoalesceKeys)
	}
	if o.Exec == nil {
		return nil
	}
	if err := o.Exec.Check(); err != nil {
		if _, ok := errors.AsType[*wake.StartError](err); ok {
			return err
		}
		return cli.Refusef("--exec: %v", err)
	}
	return nil
}

// errEnough ends a run that has received the requested number of events.
var errEnough = errors.New("enough")

// A consumer prints batches or passes them to the command.
type consumer struct {
	o    Options
	c    *client.Client
	show *display
	d    client.Descriptor

	running context.Context // ends with the run; its cause is the reason
	stop    context.CancelCauseFunc
	begun   sync.Once

	// Only one handler runs at a time, and a failed event is retried before any other is handled.
	done  int    // events that are settled or dead letters
	last  string // the eventId of the last attempt
	tries int    // and its number of attempts
}

// consume subscribes to d and handles its events until ctx is done.
func (o Options) consume(ctx context.Context, c *client.Client, keep clientstore.ConsumerStore, d client.Descriptor, args json.RawMessage) error {
	so := []client.SubscribeOption{client.WithMode(o.Mode), client.WithCursorKey(cursorKey(o.Target, d.Name, args))}
	joined, err := o.Burst.subscribeOption(d)
	if err != nil {
		return err
	}
	if joined != nil {
		so = append(so, joined)
	}
	k := &consumer{o: o, c: c, show: newDisplay(o), d: d}
	k.running, k.stop = context.WithCancelCause(ctx)
	defer k.stop(nil)
	if o.Exec != nil {
		o.Exec.Drain = execDrain
		if !o.Quiet {
			o.Exec.Output = commandOutput{k.show}
		}
	}
	stopWatching := k.show.watchConnection(k.status)
	err = client.Consume(k.running, c, client.ConsumeOptions{Store: keep, MaxTries: math.MaxInt, DrainTimeout: shutdownTime, OnProblem: k.problem},
		client.Handle(client.Dynamic(d.Name), args, k.handle, so...))
	stopWatching()
	if err != nil && ctx.Err() != nil {
		k.show.printNote("%s", plain.Text(err.Error())) // the requested end is a success nevertheless
	}
	k.show.finish(o)
	switch cause := context.Cause(k.running); {
	case errors.Is(cause, errEnough):
		return err
	case cause != nil && ctx.Err() == nil:
		return cause
	case err != nil:
		return o.explainEnd(err, d)
	}
	return nil
}

// explainEnd returns an error that explains why no more events arrive.
func (o Options) explainEnd(err error, d client.Descriptor) error {
	if _, ok := errors.AsType[*client.NoCompatibleDeliveryModeError](err); ok || errors.Is(err, events.ErrInvalidParams) {
		return o.explainRefusal(err, d)
	}
	if errors.Is(err, clientstore.ErrDeadLettersFull) {
		return fmt.Errorf("there are too many dead letters: `mcpe-ops deadletters` shows, retries and drops them: %w", err)
	}
	return ended(err)
}

// status returns the status of the subscription. Before the subscription exists, it returns the zero status.
func (k *consumer) status() client.Status {
	all := k.c.Subscriptions()
	if len(all) == 0 {
		return client.Status{}
	}
	k.begun.Do(func() { k.show.begin(k.d.Name, all[0].Mode, k.o) })
	return all[0]
}

func (k *consumer) problem(err error) {
	if gap, ok := errors.AsType[*client.GapError](err); ok {
		k.show.printGap(gap)
		return
	}
	k.show.printError(err)
}

// handle handles one batch. If handle returns an error that does not discard the event, the client retries it. Only the
// consumer limits the number of attempts, so neither the end of the run nor a missing command creates a dead letter.
func (k *consumer) handle(ctx context.Context, ev *events.Event[json.RawMessage, json.RawMessage]) error {
	if err := k.running.Err(); err != nil {
		return err
	}
	burst, mode := client.BurstOf(ctx, ev), k.status().Mode
	if k.o.Exec == nil {
		if err := k.show.printEvent(ev.Occurrence, burst.Count); err != nil {
			k.stop(err)
			return err
		}
		k.countDone(burst.Count)
		return nil
	}
	began := time.Now()
	outcome, err := k.try(burst)
	if err != nil && k.running.Err() != nil {
		return err
	}
	if err := k.show.printBatch(ev.Occurrence, mode, commandResult{Outcome: outcome.String(), Count: burst.Count, Millis: time.Since(began).Milliseconds(), Error: text(err)}); err != nil {
		k.stop(err)
		return err
	}
	switch outcome {
	case wake.Retry:
		return err
	case wake.DeadLetter:
		err = client.Discard(err)
	}
	k.last, k.tries = "", 0
	k.countDone(burst.Count)
	return err
}

// try runs the command. If the last attempt fails, the batch becomes a dead letter.
func (k *consumer) try(b client.Burst[json.RawMessage, json.RawMessage]) (wake.Outcome, error) {
	latest := b.Events[len(b.Events)-1]
	if k.last != latest.ID {
		k.last, k.tries = latest.ID, 0
	}
	batch := wake.Batch{Server: k.o.Target.String(), Event: k.d.Name, Count: b.Count, First: b.First, Last: b.Last}
	for _, ev := range b.Events {
		raw, err := json.Marshal(wireOccurrence(ev.Occurrence))
		if err != nil {
			return wake.DeadLetter, err
		}
		batch.Events = append(batch.Events, raw)
	}
	outcome, err := k.o.Exec.Try(k.running, batch)
	if _, ok := errors.AsType[*wake.StartError](err); ok {
		k.stop(err)
		return wake.Retry, err
	}
	if k.tries++; outcome == wake.Retry && k.tries >= k.o.Exec.Tries() {
		return wake.DeadLetter, fmt.Errorf("after %s: %w", plural(k.tries, "try"), err)
	}
	return outcome, err
}

// countDone counts events that will not be delivered again because they are settled or dead letters.
func (k *consumer) countDone(n int) {
	if k.done += n; k.o.Count > 0 && k.done >= k.o.Count {
		k.stop(errEnough)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A commandOutput is a writer that prints the command's output.
type commandOutput struct{ show *display }

func (c commandOutput) Write(p []byte) (int, error) {
	c.show.printNote("%s", plain.Lines(string(p[:len(p)-1]))) // without the final newline
	return len(p), nil
}
