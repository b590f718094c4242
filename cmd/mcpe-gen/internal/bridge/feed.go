package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// These are the limits of the delay between two attempts to subscribe.
const (
	pauseMin = time.Second
	pauseMax = time.Minute
)

// maxEventID is the maximum length of an eventId that is shown to the agent.
const maxEventID = 200

// A feed runs a subscription. It subscribes, adds events to the inbox, and restarts after any failure until its context
// is done.
type feed struct {
	id     string
	sub    config.Subscription
	agents bool // created by the agent, not by the configuration
	server *upstream
	e      *engine

	cancel  context.CancelFunc
	ended   chan struct{}
	breaker *breaker

	mu      sync.Mutex
	phase   phase
	problem error // the last error of an attempt or a subscription; nil once it has passed
	client  *client.Client
	gaps    int
	added   int
	latest  bool // the latest event of a burst stands for all
	joins   bool
}

// A phase is the current activity of a feed.
type phase string

const (
	connecting phase = "connecting"
	receiving  phase = "subscribing" // or active, which its client knows
	active     phase = "active"
	waiting    phase = "waiting to try again"
)

// feedID returns the identifier of a subscription for the agent and in the cursor file. It is stable across restarts.
func feedID(s config.Subscription) string {
	sum := sha256.Sum256([]byte(s.Key()))
	return "s" + hex.EncodeToString(sum[:6])
}

func (f *feed) set(p phase, c *client.Client, problem error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase, f.client, f.problem = p, c, problem
}

// run runs the feed until ctx is done.
func (f *feed) run(ctx context.Context) {
	pause := pauseMin
	for ctx.Err() == nil {
		f.mu.Lock()
		f.phase, f.client = connecting, nil // keep the problem: it is the reason for this attempt
		f.mu.Unlock()
		began := time.Now()
		err := f.subscribeOnce(ctx)
		if ctx.Err() != nil {
			if err != nil {
				f.e.printMessage("%s: ending: %v", f.name(), err)
			}
			return
		}
		if err == nil {
			err = errors.New("the subscription has ended")
		}
		f.set(waiting, nil, err)
		f.e.printMessage("%s: %v", f.name(), err)
		if time.Since(began) > pauseMax {
			pause = pauseMin
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
		pause = min(2*pause, pauseMax)
	}
}

// name returns the name of the feed in messages to the user.
func (f *feed) name() string { return f.sub.Server + " " + f.sub.Event }

// A refusal is the reason why a subscription failed although its server responded.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// isRefusal reports whether an error concerns the subscription rather than the connection to its server.
func isRefusal(err error) bool {
	return errors.As(err, new(*refusal)) || errors.As(err, new(*client.NoCompatibleDeliveryModeError)) ||
		errors.As(err, new(*events.Error)) || errors.Is(err, client.ErrNoEvents)
}

// subscribeOnce subscribes and receives events until the subscription ends.
func (f *feed) subscribeOnce(ctx context.Context) error {
	c, err := f.server.client(ctx)
	if err != nil {
		return err
	}
	err = f.consume(ctx, c)
	if err != nil && ctx.Err() == nil && !isRefusal(err) && !errors.Is(err, clientstore.ErrDeadLettersFull) {
		// Replace a connection that has failed, and read its token again from the source.
		f.server.dropConnection(c)
	}
	return err
}

func (f *feed) consume(ctx context.Context, c *client.Client) error {
	catalog, err := c.List(ctx)
	if err != nil {
		return fmt.Errorf("listing the event types: %w", err)
	}
	i := slices.IndexFunc(catalog, func(d client.Descriptor) bool { return d.Name == f.sub.Event })
	if i < 0 {
		return unknownEvent(f.sub.Server, f.sub.Event, catalog)
	}
	d := &catalog[i]
	options := []client.SubscribeOption{client.WithMode(f.sub.Mode), client.WithCursorKey(f.id), client.WithMaxAge(f.e.c.CatchUp)}
	join, latest, err := coalesceSettings(f.sub.Coalesce, d.Meta)
	if err != nil {
		return &refusal{err.Error()}
	}
	if join != nil {
		options = append(options, client.WithCoalescing(*join))
	}
	options = append(options, f.notByMe(d)...)
	f.mu.Lock()
	f.latest, f.joins, f.phase, f.client = latest, join != nil, receiving, c
	f.mu.Unlock()
	return client.Consume(ctx, c, client.ConsumeOptions{Store: f.e.state.cursors, MaxTries: math.MaxInt32, OnProblem: f.recordError},
		client.Handle(client.Dynamic(f.sub.Event), f.sub.Arguments, func(hctx context.Context, ev *events.Event[json.RawMessage, json.RawMessage]) error {
			// A full inbox delays the server, but not the shutdown.
			hctx, stop := context.WithCancel(hctx)
			defer stop()
			defer context.AfterFunc(ctx, stop)()
			return f.addBurst(hctx, client.BurstOf(hctx, ev))
		}, options...))
}

// coalesceSettings returns the settings for coalescing events, or nil if events are not coalesced. The configuration
// takes precedence over the event type. The settings request all events of a burst so that events redelivered after a
// crash can be recognized. latest reports whether the agent receives only the last one.
func coalesceSettings(own *config.Coalesce, meta map[string]any) (_ *client.Coalescing, latest bool, err error) {
	said, err := wire.CoalesceOf(meta)
	if own == nil {
		if said == nil || err != nil {
			return nil, false, nil // invalid settings join nothing
		}
		own = &config.Coalesce{}
	}
	if own.Off {
		return nil, false, nil
	}
	keep := own.Keep
	switch {
	case said != nil:
		keep = cmp.Or(keep, said.Keep)
	case len(own.Key) == 0 || own.QuietSeconds == 0:
		return nil, false, errors.New("coalesce: the event type publishes no usable x-coalesce, so key and quietSeconds have to be in the subscription")
	}
	return &client.Coalescing{Key: own.Key, Quiet: time.Duration(own.QuietSeconds) * time.Second, Max: time.Duration(own.MaxSeconds) * time.Second,
		Keep: wire.KeepAll}, cmp.Or(keep, wire.KeepLatest) == wire.KeepLatest, nil
}

// recordError records an error that does not end the subscription.
func (f *feed) recordError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := errors.AsType[*client.GapError](err); ok {
		f.gaps++
	}
	f.problem = err
}

// addBurst adds the events of a burst to the inbox.
func (f *feed) addBurst(ctx context.Context, burst client.Burst[json.RawMessage, json.RawMessage]) error {
	var all []inbox.Event
	for _, ev := range burst.Events {
		all = append(all, shownEvent(ev, f.e.c.Limits.BytesPerEvent))
	}
	f.mu.Lock()
	latest := f.latest
	f.mu.Unlock()
	n, err := f.e.state.box.Add(ctx, inbox.Batch{Subscription: f.id, Server: f.sub.Server, Event: f.sub.Event, Received: time.Now().UTC()}, all, latest)
	f.mu.Lock()
	f.added += n
	f.mu.Unlock()
	if n > 0 && f.breaker.recordArrival(time.Now()) {
		f.announceResume("events come although nothing is woken")
	}
	return err
}

// shownEvent returns an event with its data truncated to the given number of bytes.
func shownEvent(ev *events.Event[json.RawMessage, json.RawMessage], most int) inbox.Event {
	e := inbox.Event{ID: ev.ID, Timestamp: ev.Timestamp.Time}
	if len(e.ID) > maxEventID {
		sum := sha256.Sum256([]byte(e.ID))
		e.ID = plain.Cut(e.ID, maxEventID) + "…" + hex.EncodeToString(sum[:8])
	}
	if len(ev.Data) <= most {
		e.Data = ev.Data
		return e
	}
	e.Beginning, e.Bytes = plain.Cut(string(ev.Data), most), len(ev.Data)
	return e
}

// A status is a snapshot of a feed's state.
type status struct {
	phase   phase
	problem error
	mode    string
	gaps    int
	added   int
	joins   bool
}

func (f *feed) status() status {
	f.mu.Lock()
	c := f.client
	s := status{phase: f.phase, problem: f.problem, gaps: f.gaps, added: f.added, joins: f.joins}
	f.mu.Unlock()
	if c == nil {
		return s
	}
	for _, live := range c.Subscriptions() {
		if live.CursorKey != f.id || live.LastFrame.IsZero() {
			continue // another subscription, or one without its server's answer
		}
		s.phase, s.mode = active, live.Mode
		if live.LastError != nil {
			s.problem = live.LastError
		} else if live.Gaps == 0 {
			s.problem = nil
		}
	}
	return s
}
