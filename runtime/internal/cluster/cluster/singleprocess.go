package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/solo"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A localProcesses implements [Processes] for the only process that serves a store. It owns all shards from the start
// (package solo).
type localProcesses struct {
	o        Options
	ctx      context.Context // ends with the server
	stop     context.CancelFunc
	stored   *solo.Records // nil without webhook delivery
	webhooks *subscriber.Subscriptions
	closed   sync.Map // event type → *eventtype.Closing, nil if an operator opened the type again
}

func newLocalProcesses(o Options) *localProcesses {
	p := &localProcesses{o: o}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

func (p *localProcesses) Records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error) {
	kept, ok := p.o.Store.(store.SubscriptionStore)
	if !ok {
		return nil, nil, errors.New("webhooks: Options.Store does not store subscriptions (store.SubscriptionStore)")
	}
	var err error
	if p.stored, err = solo.Open(ctx, kept); err != nil {
		return nil, nil, fmt.Errorf("webhooks: reading the stored subscriptions: %w", err)
	}
	return p.stored, p.stored.Cluster(func(id string, of engine.Shard) { p.webhooks.Changed(id, of) }), nil
}

// Join schedules the end of stored subscriptions whose event types are not registered in time (EVOL-1).
func (p *localProcesses) Join(w *subscriber.Subscriptions) error {
	p.webhooks = w
	if p.stored == nil {
		return nil
	}
	if stored := p.stored.Events(); len(stored) > 0 {
		timer := time.AfterFunc(orphanTime, func() { p.endOrphans(stored) })
		context.AfterFunc(p.ctx, func() { timer.Stop() })
	}
	return nil
}

func (p *localProcesses) endOrphans(stored []string) {
	for _, event := range stored {
		p.webhooks.EndOrphans(solo.NewOwnership(p.ctx, event))
	}
}

func (p *localProcesses) Hurry() {}

func (p *localProcesses) Serve(et eventtype.Type, restored func()) error {
	return p.webhooks.Serve(context.Background(), solo.NewOwnership(p.ctx, et.Name()), et, restored)
}

func (p *localProcesses) Shutdown(context.Context) error {
	p.stop()
	return nil
}

// Heard returns true, because this process gives all orders.
func (p *localProcesses) Heard() bool { return true }

func (p *localProcesses) LastLook() time.Time { return time.Time{} }

func (p *localProcesses) Status() (uint64, map[string]int, bool) { return 0, nil, false }

func (p *localProcesses) OutboxAge() time.Duration { return 0 }

func (p *localProcesses) Now() time.Time { return time.Now() }

func (p *localProcesses) Refresh(context.Context) {}

// Request returns the zero position without webhook delivery, because nothing else is restored.
func (p *localProcesses) Request(context.Context) (store.ControlPosition, error) {
	if p.stored == nil {
		return store.ControlPosition{}, nil
	}
	return p.stored.Request(), nil
}

// Tell does nothing, because this is the only process.
func (p *localProcesses) Tell(context.Context, orders.Order) error { return nil }

// Ask returns NotFound, because a subscription that is not live here does not exist or could not be restored.
func (p *localProcesses) Ask(context.Context, orders.Order) error {
	return fault.NotFound("subscription")
}

// CloseType stores the termination until the process exits.
func (p *localProcesses) CloseType(_ context.Context, event string, c *eventtype.Closing) error {
	p.closed.Store(event, c)
	return nil
}

func (p *localProcesses) ClosedType(_ context.Context, event string) (*eventtype.Closing, error) {
	c, _ := p.closed.Load(event)
	closing, _ := c.(*eventtype.Closing)
	return closing, nil
}

func (p *localProcesses) RecallLater(string) {}
