package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// An engine runs the feeds of a bridge.
type engine struct {
	c       *config.Config
	state   *state
	servers map[string]*upstream
	print   func(string) // for the user; takes lines without their endings

	ctx context.Context // done when the bridge ends
	end context.CancelFunc

	mu    sync.Mutex
	feeds map[string]*feed
}

func newEngine(ctx context.Context, o Options, s *state, print func(string)) *engine {
	e := &engine{c: o.Config, state: s, servers: map[string]*upstream{}, print: print, feeds: map[string]*feed{}}
	e.ctx, e.end = context.WithCancel(context.WithoutCancel(ctx)) // stop ends it cleanly
	for _, known := range o.Config.Servers {
		e.servers[known.Name] = newUpstream(known, o)
	}
	return e
}

// printMessage prints a message to the user. The message may contain text from servers.
func (e *engine) printMessage(format string, args ...any) {
	e.print(plain.Text(plain.Cut(fmt.Sprintf(format, args...), maxText)))
}

// maxText is the maximum length of text from a server, except event data.
const maxText = 1000

// start starts the configured subscriptions and the agent's earlier subscriptions.
func (e *engine) start() error {
	for _, s := range e.c.Subscriptions {
		e.startFeed(s, false)
	}
	for id, raw := range e.state.box.Subscriptions() {
		var s config.Subscription
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("reading subscription %s of the state: %w", id, err)
		}
		_, known := e.c.Server(s.Server)
		switch {
		case !known || !e.c.Allowed(s.Server, s.Event):
			e.printMessage("%s %s, which the agent has subscribed to, is no longer allowed", s.Server, s.Event)
			if err := errors.Join(e.state.box.Drop(id), e.state.cursors.Delete(e.ctx, id)); err != nil {
				return err
			}
		default:
			e.startFeed(s, true)
		}
	}
	return e.state.box.Prune(func(id string) bool { return e.feed(id) != nil })
}

// startFeed starts a feed for the subscription unless there already is one.
func (e *engine) startFeed(s config.Subscription, agents bool) *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := feedID(s)
	if f := e.feeds[id]; f != nil {
		return f
	}
	ctx, cancel := context.WithCancel(e.ctx)
	f := &feed{id: id, sub: s, agents: agents, server: e.servers[s.Server], e: e, cancel: cancel, ended: make(chan struct{}), phase: connecting,
		breaker: newBreaker(e.c.Loop)}
	e.feeds[id] = f
	go func() {
		defer close(f.ended)
		var parts sync.WaitGroup
		parts.Go(func() { f.run(ctx) })
		if e.c.Exec != nil {
			parts.Go(func() { f.runCommands(ctx) })
		}
		parts.Go(func() { f.resumeQuiet(ctx) })
		parts.Wait()
	}()
	return f
}

func (e *engine) feed(id string) *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feeds[id]
}

// sortedFeeds returns the feeds, sorted by server and event.
func (e *engine) sortedFeeds() []*feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Values(e.feeds), func(a, b *feed) int { return strings.Compare(a.sub.Key(), b.sub.Key()) })
}

// stop stops all feeds. Their events are then in the inbox and their cursors are saved.
func (e *engine) stop() {
	e.end()
	for _, f := range e.sortedFeeds() {
		<-f.ended
	}
	var closing sync.WaitGroup
	for _, s := range e.servers {
		closing.Go(s.close)
	}
	closing.Wait()
}

// acceptTime is how long creating a subscription for the agent waits for the server's response.
const acceptTime = 10 * time.Second

// placeTime is how long it then waits for the first cursor. Event types without replay never provide one.
const placeTime = time.Second

// errFull is returned if there are too many subscriptions.
var errFull = errors.New("there are as many subscriptions as limits.subscriptions allows; end one with events_unsubscribe")

// subscribe creates a subscription for the agent and stores it unless the server rejects it.
func (e *engine) subscribe(ctx context.Context, s config.Subscription) (f *feed, was bool, err error) {
	id := feedID(s)
	if f := e.feed(id); f != nil {
		return f, true, nil
	}
	if len(e.sortedFeeds()) >= e.c.Limits.Subscriptions {
		return nil, false, errFull
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = e.state.box.Keep(id, raw)
	}
	if err != nil {
		return nil, false, fmt.Errorf("keeping the subscription: %w", err)
	}
	f = e.startFeed(s, true)
	limit := time.After(acceptTime)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var accepted time.Time
	for {
		st := f.status()
		if st.phase == active && accepted.IsZero() {
			accepted = time.Now()
		}
		switch {
		case st.phase == active && (e.hasCursor(ctx, id) || time.Since(accepted) > placeTime):
			return f, false, nil
		case st.phase == waiting && isRefusal(st.problem):
			return nil, false, errors.Join(st.problem, e.unsubscribe(f))
		case st.phase == waiting:
			return f, false, nil // it will be created once the server is available
		}
		select {
		case <-look.C:
		case <-limit:
			return f, false, nil
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-e.ctx.Done():
			return nil, false, errEnding
		}
	}
}

// hasCursor reports whether the cursor of a subscription has been saved. From then on, no event can be missed.
func (e *engine) hasCursor(ctx context.Context, id string) bool {
	_, ok, err := e.state.cursors.Load(ctx, id)
	return ok && err == nil
}

var errEnding = errors.New("the bridge is ending")

// unsubscribe ends a subscription of the agent and deletes its cursor. Its events remain in the inbox.
func (e *engine) unsubscribe(f *feed) error {
	if err := e.state.box.Drop(f.id); err != nil {
		return err
	}
	f.cancel()
	<-f.ended
	e.mu.Lock()
	delete(e.feeds, f.id)
	e.mu.Unlock()
	return errors.Join(e.state.cursors.Delete(context.WithoutCancel(e.ctx), f.id), e.state.box.Prune(func(id string) bool { return id != f.id }))
}
